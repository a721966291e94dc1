/** What every runtime is asked for and tells, whichever it is. */

export const RUNTIMES = ["wllama", "transformers_js", "webllm"] as const;
export type Runtime = (typeof RUNTIMES)[number];
export type Device = "wasm" | "webgpu";

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ModelSource {
  name: string;
  /** A file for wllama; a folder, which ends in a slash, for the others; empty if files are given. */
  url: string;
  /** Files that a person chose, instead of the address. */
  files?: File[];
  /** Address of the model library of WebLLM; `model.wasm` in the folder if there is none. */
  library?: string;
  /** A name that the runtime itself knows where to get, instead of an address: a repository or a model id. */
  id?: string;
}

export interface LoadOptions {
  /** Address of the folder of the runtime's package. */
  runtimeUrl: string;
  /** The runtime's module, if the page has imported it already. */
  module?: unknown;
  /** Address of the folder of onnxruntime-web's package. */
  onnxRuntimeUrl: string;
  model: ModelSource;
  contextLength?: number;
  threads?: number;
  device?: Device;
  onProgress: (fraction: number, text: string) => void;
}

export interface Buffer {
  name: string;
  kind: "weight" | "kv_cache" | "compute" | "other";
  bytes: number;
  where: "wasm" | "webgpu" | "js";
}

export interface Loaded {
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

export interface GenerateOptions {
  prompt: string;
  /** A conversation, put in the form of the model's chat template; the prompt is used as it is if there is none. */
  messages?: Message[];
  maxTokens: number;
  temperature: number;
  seed: number;
  ignoreEnd?: boolean;
  signal: AbortSignal;
  onPrompt: (prompt: PromptSize) => void;
  onToken: (token: Token) => void;
}

export interface PromptSize {
  tokens: number;
  ids?: number[];
  cached_tokens?: number;
}

export interface Token {
  /** Empty for a token that is part of a character that later tokens complete. */
  text: string;
  id?: number;
  /** When it was computed, on the page's clock; now, if it is handed over at once. */
  t_ms?: number;
}

export interface Generated {
  reason: "length" | "stop" | "aborted";
  usage: { prompt_tokens: number; completion_tokens: number };
  timings: { prompt_ms?: number; predicted_ms?: number };
}

/** A runtime with a model. */
export interface Engine {
  generate(options: GenerateOptions): Promise<Generated>;
  /** Bytes of the key and value tensors that the runtime holds now, where it shows them. */
  kvBytes?(): number | undefined;
  unload(): Promise<void>;
}

export interface EngineKind {
  /** What can fail has a stage of its own: `runtime` and `model`, by a `Failure`; the rest is of stage `load`. */
  load(options: LoadOptions): Promise<{ engine: Engine; loaded: Loaded }>;
}
