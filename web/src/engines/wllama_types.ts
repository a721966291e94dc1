/** The part of wllama 3.8 that is used. */

export interface WllamaModule {
  Wllama: WllamaConstructor;
}

export interface WllamaConstructor {
  new (paths: { default: string }, config: { logger: Logger; suppressNativeLog: boolean }): Wllama;
  getLibllamaVersion?(): string;
}

export type Logger = Record<"debug" | "log" | "warn" | "error", (...given: unknown[]) => void>;

export interface Wllama {
  loadModel(blobs: Blob[], options: Record<string, unknown>): Promise<void>;
  getLoadedContextInfo(): ContextInfo;
  getNumThreads(): number;
  isMultithread(): boolean;
  getChatTemplate(): string | null;
  createCompletion(options: Record<string, unknown>): Promise<AsyncIterable<Chunk>>;
  createChatCompletion(options: Record<string, unknown>): Promise<AsyncIterable<Chunk>>;
  exit(): Promise<void>;
  /** The connection to its worker, which its own types hide. */
  proxy?: { wllamaAction?: GlueAction } | null;
}

/** Has the worker do something: `completion` begins an answer, `get_result` computes a step of it. */
export type GlueAction = (name: string, body: unknown) => Promise<unknown>;

export interface ContextInfo {
  n_vocab: number;
  n_ctx: number;
  n_ctx_train: number;
  n_layer: number;
  n_embd: number;
  metadata: Record<string, string>;
}

export interface Timings {
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  predicted_n: number;
  predicted_ms: number;
}

/** Of a completion (`text`) or of a chat (`delta`). */
export interface Chunk {
  choices?: {
    text?: string;
    delta?: { content?: string | null; reasoning_content?: string | null };
    finish_reason?: string | null;
  }[];
  timings?: Timings;
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
}
