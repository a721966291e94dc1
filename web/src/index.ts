/** The module for people's own pages. The build puts the hooks in front of it: import it before any runtime. */

export { TransformersProfiler, WebLLMProfiler, WllamaProfiler } from "./profiler.ts";
export { Sampler } from "./sampler.ts";
export { samplesToCsv } from "./csv.ts";
export { Failure } from "./failure.ts";
