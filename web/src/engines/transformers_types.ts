/** The part of transformers.js 4.3 and onnxruntime-web that is used. */

export interface TransformersModule {
  env: {
    version: string;
    allowRemoteModels: boolean;
    allowLocalModels: boolean;
    localModelPath: string;
    useBrowserCache: boolean;
    useWasmCache: boolean;
    fetch: typeof fetch;
    backends: { onnx: { wasm?: { wasmPaths?: unknown; numThreads?: number } } };
  };
  AutoTokenizer: { from_pretrained(name: string, options: FromPretrained): Promise<Tokenizer> };
  AutoModelForCausalLM: { from_pretrained(name: string, options: FromPretrained): Promise<Model> };
  InterruptableStoppingCriteria: new () => { interrupt(): void };
  random: { seed(seed: number): void };
}

export interface FromPretrained {
  device?: string;
  dtype?: string;
  progress_callback?: (progress: Progress) => void;
}

export interface Progress {
  status: string;
  file?: string;
  loaded?: number;
  total?: number;
  progress?: number;
}

export interface Tokenizer {
  (text: string): { input_ids: IdTensor; attention_mask: IdTensor };
  apply_chat_template(messages: unknown[], options: Record<string, unknown>): { input_ids: IdTensor; attention_mask: IdTensor };
  decode(ids: (number | bigint)[], options: { skip_special_tokens: boolean }): string;
  chat_template?: string | null;
}

export interface IdTensor {
  dims: number[];
  data: BigInt64Array;
}

export interface Model {
  sessions: Record<string, OnnxSession>;
  config: ModelConfig;
  generate(options: Record<string, unknown>): Promise<unknown>;
  dispose(): Promise<unknown>;
}

export interface ModelConfig {
  model_type?: string;
  num_hidden_layers?: number;
  num_attention_heads?: number;
  num_key_value_heads?: number;
  hidden_size?: number;
  head_dim?: number;
  max_position_embeddings?: number;
  vocab_size?: number;
}

export interface OnnxSession {
  run(feeds: unknown, ...more: unknown[]): Promise<Record<string, OnnxTensor>>;
}

export interface OnnxTensor {
  type: string;
  dims: readonly number[];
  location: string;
  gpuBuffer?: GPUBuffer;
}
