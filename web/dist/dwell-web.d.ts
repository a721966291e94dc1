/** What a model costs in a page: memory and tokens, sampled while it loads and writes. Import this module before any runtime. */

declare function bytes(value: number | null): string;

/** `timestamp` is in seconds since 1970, memory in mebibytes; what is unknown is empty. */
declare function samplesToCsv(samples: readonly Sample[], label: string): string;

declare const RUNTIMES: readonly ["wllama", "transformers_js", "webllm"];

type Runtime = (typeof RUNTIMES)[number];

type Device = "wasm" | "webgpu";

interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

interface Buffer {
  name: string;
  kind: "weight" | "kv_cache" | "compute" | "other";
  bytes: number;
  where: "wasm" | "webgpu" | "js";
}

interface Loaded {
  model: {
    /** In the runtime's own words: architecture, size, type of the weights. */
    description?: string;
    architecture?: string;
    layers?: number;
    context_length?: number;
    parameters?: number;
    vocabulary?: number;
  };
  kv: {
    bytes?: number;
    cells?: number;
    bytes_per_token?: number;
    type_k?: "f16" | "f32";
    type_v?: "f16" | "f32";
    preallocated: boolean;
    /** Where these numbers come from. */
    basis: string;
  };
  buffers: Buffer[];
  /** Whether conversations can be put in the form that the model was trained with. */
  has_chat_template: boolean;
  runtime_version: string;
  device: string;
}

interface Generated {
  reason: "length" | "stop" | "aborted";
  usage: {
    prompt_tokens: number;
    completion_tokens: number;
  };
  timings: {
    prompt_ms?: number;
    predicted_ms?: number;
  };
}

declare const STAGES: readonly ["runtime", "webgpu", "model", "load", "generate", "quota"];

type Stage = (typeof STAGES)[number];

/** Why something could not be done, and what helps. */
declare class Failure extends Error {
  readonly stage: Stage;
  readonly hint: string | undefined;
  constructor(stage: Stage, message: string, hint?: string);
}

declare const GPU_KINDS: readonly ["weight", "kv_cache", "other"];

type GpuKind = (typeof GPU_KINDS)[number];

interface ProfilerOptions {
  /** Milliseconds between samples, 100 if not given; there is one at each token as well. */
  samplingInterval?: number;
  onSample?: (sample: Sample) => void;
  onToken?: (token: TokenEvent) => void;
  onProgress?: (progress: { fraction: number; text: string }) => void;
}

interface TokenEvent {
  /** When it was computed, in milliseconds since 1970. */
  t_ms: number;
  index: number;
  /** Empty for a token that is part of a character that later tokens complete. */
  text: string;
  id?: number;
}

interface InitializeOptions {
  /** Address of a file (wllama) or of a folder, or files, or the name that the runtime itself has for a model. */
  model:
    | string
    | File[]
    | {
        id: string;
      };
  /** The runtime's module, if the page has imported it; otherwise it is imported from `runtimeUrl`. */
  module?: unknown;
  /** Address of the folder of the runtime's npm package. */
  runtimeUrl?: string;
  /** Address of the folder of the npm package onnxruntime-web; only for transformers.js. */
  onnxRuntimeUrl?: string;
  /** Address of the model library; only for WebLLM. */
  library?: string;
  contextLength?: number;
  threads?: number;
  device?: Device;
}

interface CompleteOptions {
  /** 128 if not given. */
  maxTokens?: number;
  /** 0 if not given: the most likely token. */
  temperature?: number;
  seed?: number;
  /** Goes on after the token that ends a text. */
  ignoreEnd?: boolean;
}

interface Completion extends Generated {
  text: string;
  tokens: TokenEvent[];
}

declare class Profiler {
  #private;
  constructor(runtime: Runtime, options: ProfilerOptions);
  /** Loads the model; memory is sampled while it loads. Throws a `Failure` that says what is wrong and what helps. */
  initialize(options: InitializeOptions): Promise<Loaded>;
  /** Generates from a text, or from a conversation in the form of the model's chat template. */
  complete(prompt: string | Message[], options?: CompleteOptions): Promise<Completion>;
  /** Ends generation after the token that is being computed. */
  stop(): void;
  /** Samples since `initialize` began. */
  getSamples(): Sample[];
  toCSV(label?: string): string;
  downloadCSV(fileName?: string, label?: string): void;
  /** Frees the model. */
  unload(): Promise<void>;
}

/** llama.cpp in WebAssembly, with a GGUF file: `@wllama/wllama`. */
declare class WllamaProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** ONNX models: `@huggingface/transformers` with `onnxruntime-web`. */
declare class TransformersProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** Models compiled by MLC, on WebGPU: `@mlc-ai/web-llm`. */
declare class WebLLMProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** Memory at one moment. Fields that this browser or page cannot know are left out. */
interface Sample {
  /** Milliseconds since 1970, with fractions, on the page's monotonic clock. */
  t_ms: number;
  /** JavaScript heap without WebAssembly and graphics memory; Chromium only. */
  heap_used_bytes?: number;
  heap_total_bytes?: number;
  /** WebAssembly memories of this page and of its workers. */
  wasm_bytes: number;
  /** Of `measureUserAgentSpecificMemory`, in the first sample after each measurement; cross-origin isolated pages only. */
  ua_memory_bytes?: number;
  /** WebGPU buffers and textures. */
  gpu_bytes: number;
  gpu: Record<GpuKind, number>;
  /** Storage of this site. */
  storage_bytes?: number;
  /** Key and value tensors that the runtime holds, where it shows them to the page. */
  kv_bytes?: number;
  /** Tokens of the request that the page has received. */
  tokens: number;
}

interface SamplerOptions {
  /** 0 takes no samples at all. */
  intervalMs: number;
  onSample: (sample: Sample) => void;
  tokens: () => number;
  kvBytes?: () => number | undefined;
}

/** Samples at an interval from `start` to `stop`, and whenever `take` is called. */
declare class Sampler {
  #private;
  constructor(options: SamplerOptions);
  start(): void;
  stop(): void;
  /** A sample now. */
  take(): void;
}

export {
  TransformersProfiler,
  WebLLMProfiler,
  WllamaProfiler,
  Sampler,
  samplesToCsv,
  Failure,
  CompleteOptions,
  Completion,
  InitializeOptions,
  ProfilerOptions,
  TokenEvent,
  Sample,
  Loaded,
  Message,
};
