/** The part of WebLLM that is used: the types of 0.2.85, with what 0.2.79 spells differently. */

export interface WebLlmModule {
  CreateMLCEngine(modelId: string, config: EngineConfig, chat?: Record<string, unknown>): Promise<MlcEngine>;
  prebuiltAppConfig?: { model_list: ModelRecord[] };
  deleteModelAllInfoInCache?(modelId: string, appConfig: EngineConfig["appConfig"]): Promise<void>;
}

export interface ModelRecord {
  model: string;
  model_id: string;
  model_lib: string;
  overrides?: Record<string, unknown>;
  vram_required_MB?: number;
}

export interface EngineConfig {
  appConfig?: {
    model_list: ModelRecord[];
    /** From 0.2.80 on. */
    cacheBackend?: string;
    /** Until 0.2.79. */
    useIndexedDBCache?: boolean;
  };
  initProgressCallback: (report: { progress: number; text: string }) => void;
  logLevel: string;
}

export interface MlcEngine {
  chat: { completions: { create(request: Record<string, unknown>): Promise<AsyncIterable<WebLlmChunk>> } };
  completions: { create(request: Record<string, unknown>): Promise<AsyncIterable<WebLlmChunk>> };
  interruptGenerate(): void;
  unload(): Promise<void>;
}

/** Of a completion (`text`) or of a chat (`delta`). The last chunk has the usage and no choice. */
export interface WebLlmChunk {
  choices: { text?: string; delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    extra?: { prefill_tokens_per_s?: number; decode_tokens_per_s?: number };
  } | null;
}
