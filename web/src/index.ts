/** The module for people's own pages. The build puts the hooks in front of it: import it before any runtime. */

export { TransformersProfiler, WebLLMProfiler, WllamaProfiler } from "./profiler.ts";
export { Sampler } from "./sampler.ts";
export { samplesToCsv } from "./csv.ts";
export { Failure } from "./failure.ts";
export type { CompleteOptions, Completion, InitializeOptions, ProfilerOptions, TokenEvent } from "./profiler.ts";
export type { Sample } from "./sampler.ts";
export type { Loaded, Message } from "./engines/engine.ts";
