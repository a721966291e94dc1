/** The module is what its declarations say: checked by the compiler, never run. */

import * as actual from "../src/index.ts";
import type * as Declared from "../dist/dwell-web.d.ts";

type Public<Type> = { [Key in keyof Type]: Type[Key] };
type Made<Class extends abstract new (...given: never[]) => unknown> = Public<InstanceType<Class>>;

actual satisfies { [Name in keyof typeof Declared]: unknown };
export const wllama = (profiler: actual.WllamaProfiler): Made<typeof Declared.WllamaProfiler> => profiler;
export const transformers = (profiler: actual.TransformersProfiler): Made<typeof Declared.TransformersProfiler> => profiler;
export const webllm = (profiler: actual.WebLLMProfiler): Made<typeof Declared.WebLLMProfiler> => profiler;
export const failure = (thrown: actual.Failure): Made<typeof Declared.Failure> => thrown;
export const sampler = (given: actual.Sampler): Made<typeof Declared.Sampler> => given;
export const csv: typeof Declared.samplesToCsv = actual.samplesToCsv;
export const options = (given: Declared.ProfilerOptions): actual.WllamaProfiler => new actual.WllamaProfiler(given);
