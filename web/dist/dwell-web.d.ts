/** What a model costs in a page: memory and tokens, sampled while it loads and writes. Import this module before any runtime. */

export interface Sample {
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
  gpu: { weight: number; kv_cache: number; other: number };
  /** Storage of this site. */
  storage_bytes?: number;
  /** Key and value tensors, where the runtime shows them: transformers.js. */
  kv_bytes?: number;
  tokens: number;
}

export interface TokenEvent {
  t_ms: number;
  index: number;
  /** Empty for a token that is part of a character that later tokens complete. */
  text: string;
  id?: number;
}

export interface ProfilerOptions {
  /** Milliseconds between samples, 100 if not given; there is one at each token as well. */
  samplingInterval?: number;
  onSample?: (sample: Sample) => void;
  onToken?: (token: TokenEvent) => void;
  onProgress?: (progress: { fraction: number; text: string }) => void;
}

export interface InitializeOptions {
  /** Address of a file (wllama) or of a folder, or files, or the name that the runtime itself has for a model. */
  model: string | File[] | { id: string };
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
  device?: "wasm" | "webgpu";
}

export interface Loaded {
  model: { architecture?: string; layers?: number; context_length?: number; parameters?: number; vocabulary?: number };
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
  buffers: { name: string; kind: "weight" | "kv_cache" | "compute" | "other"; bytes: number; where: "wasm" | "webgpu" | "js" }[];
  has_chat_template: boolean;
  runtime_version: string;
  device: string;
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface CompleteOptions {
  /** 128 if not given. */
  maxTokens?: number;
  /** 0 if not given: the most likely token. */
  temperature?: number;
  seed?: number;
  /** Goes on after the token that ends a text. */
  ignoreEnd?: boolean;
}

export interface Completion {
  text: string;
  tokens: TokenEvent[];
  reason: "length" | "stop" | "aborted";
  /** As the runtime counts. */
  usage: { prompt_tokens: number; completion_tokens: number };
  timings: { prompt_ms?: number; predicted_ms?: number };
}

/** Why something could not be done, and what helps. */
export declare class Failure extends Error {
  readonly stage: "runtime" | "webgpu" | "model" | "load" | "generate" | "quota";
  readonly hint: string | undefined;
  constructor(stage: Failure["stage"], message: string, hint?: string);
}

declare class Profiler {
  /** Loads the model; memory is sampled while it loads. Throws a `Failure`. */
  initialize(options: InitializeOptions): Promise<Loaded>;
  /** Generates from a text, or from a conversation in the form of the model's chat template. Throws a `Failure`. */
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
export declare class WllamaProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** ONNX models: `@huggingface/transformers` with `onnxruntime-web`. */
export declare class TransformersProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** Models compiled by MLC, on WebGPU: `@mlc-ai/web-llm`. */
export declare class WebLLMProfiler extends Profiler {
  constructor(options?: ProfilerOptions);
}

/** Samples alone, for a page that runs its model itself. */
export declare class Sampler {
  constructor(options: {
    intervalMs: number;
    onSample: (sample: Sample) => void;
    tokens: () => number;
    kvBytes?: () => number | undefined;
  });
  start(): void;
  stop(): void;
  /** A sample now. */
  take(): void;
}

/** Samples as CSV; memory in mebibytes. */
export declare function samplesToCsv(samples: readonly Sample[], label: string): string;

// Only what is marked so is exported.
export {};
