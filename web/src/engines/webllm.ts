/** WebLLM: models compiled by MLC, on WebGPU. Its cache is allocated when the model loads. */

import { Failure, STORAGE_HINT } from "../failure.ts";
import type { Buffer, Engine, EngineKind, Generated, GenerateOptions, Loaded, LoadOptions } from "./engine.ts";
import { packageVersion, runtimeModule, textOf } from "./fetching.ts";
import { ModelFolder, STAND_IN_PARENT } from "./folder.ts";
import { budgetOf, metadataOf, pagedCells, type Budget, type MlcMetadata } from "./mlc_metadata.ts";
import { requireWebGpu } from "./webgpu.ts";
import { ChunkStream } from "./webllm_chunks.ts";
import type { EngineConfig, MlcEngine, ModelRecord, WebLlmModule } from "./webllm_types.ts";

const DEFAULT_LIBRARY = "model.wasm";
const DEFAULT_CONTEXT = 4096;
const PROBE = "dwell-probe";
const PROBE_BYTES = 1024 * 1024;
/** Drivers may round a buffer of the cache up by this much. */
const KV_SLACK = 1.02;

export const webllm: EngineKind = { load };

interface Prepared {
  config: EngineConfig;
  modelId: string;
  metadata: MlcMetadata | undefined;
}

async function load(options: LoadOptions): Promise<{ engine: Engine; loaded: Loaded }> {
  await requireWebGpu("WebLLM");
  options.onProgress(0, "loads WebLLM");
  const module = await runtimeModule<WebLlmModule>("WebLLM", options.module, new URL("lib/index.js", options.runtimeUrl).href);
  const folder = new ModelFolder(options.model);
  const { config, modelId, metadata } =
    options.model.id === undefined ? await ownModel(options, folder) : await prebuilt(module, options, options.model.id);
  const context = options.contextLength;
  const chat = context === undefined ? {} : { context_window_size: context };
  const engine = await withFolder(folder, () => module.CreateMLCEngine(modelId, config, chat))
    .catch(async (error: unknown) => {
      throw (await storageFailure(textOf(error))) ?? loadFailure(options.model.name, textOf(error));
    })
    .finally(() => options.model.id === undefined && forget(module, modelId, config));
  const version = options.module === undefined ? await packageVersion(options.runtimeUrl) : "given by the page";
  const loaded = describe(metadata, context, version);
  return { engine: new WebLlmEngine(engine), loaded };
}

/** A model in a folder: its chat configuration, its weights, and its library. */
async function ownModel({ model, onProgress }: LoadOptions, folder: ModelFolder): Promise<Prepared> {
  await folder.json("mlc-chat-config.json");
  const library = await libraryOf(model.library, folder, model.name);
  const record: ModelRecord = {
    model: new URL(`${STAND_IN_PARENT}${folder.standInName}/`, location.href).href,
    model_id: model.name,
    model_lib: URL.createObjectURL(new Blob([library], { type: "application/wasm" })),
  };
  return { config: configOf([record], onProgress), modelId: model.name, metadata: metadataOf(library) };
}

/** A model of WebLLM's own list, which says where its files are. */
async function prebuilt(module: WebLlmModule, { onProgress }: LoadOptions, id: string): Promise<Prepared> {
  const record = module.prebuiltAppConfig?.model_list.find(({ model_id }) => model_id === id);
  if (record === undefined) {
    throw new Failure(
      "model",
      `WebLLM has no model ${id} in its list`,
      "take an id from WebLLM's list of models, or the address of a folder",
    );
  }
  const library = await fetch(record.model_lib).then(
    (response) => (response.ok ? response.arrayBuffer() : undefined),
    () => undefined,
  );
  const metadata = library && metadataOf(new Uint8Array(library));
  return { config: configOf([record], onProgress), modelId: id, metadata };
}

/** Both spellings of where files are cached; a version ignores the one it does not know. */
function configOf(model_list: ModelRecord[], onProgress: LoadOptions["onProgress"]): EngineConfig {
  return {
    appConfig: { model_list, cacheBackend: "indexeddb", useIndexedDBCache: true },
    initProgressCallback: ({ progress, text }) => onProgress(progress, text),
    logLevel: "WARN",
  };
}

async function libraryOf(address: string | undefined, folder: ModelFolder, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const response = address === undefined ? await folder.open(DEFAULT_LIBRARY) : await fetch(address);
  if (!response.ok) {
    const where = address ?? `${DEFAULT_LIBRARY} in its folder`;
    throw new Failure(
      "model",
      `the model library of ${name} is missing: ${where}`,
      "WebLLM needs the .wasm that MLC compiled for this model: take it from the repository mlc-ai/binary-mlc-llm-libs",
    );
  }
  return new Uint8Array(await response.arrayBuffer());
}

/** WebLLM fetches by itself: while it loads, addresses of the stand-in are answered from the folder. */
async function withFolder<Value>(folder: ModelFolder, work: () => Promise<Value>): Promise<Value> {
  const own = globalThis.fetch;
  globalThis.fetch = folder.fetch;
  try {
    return await work();
  } finally {
    globalThis.fetch = own;
  }
}

/** WebLLM keeps what it loads. A folder is here already, and its stand-in is another one the next time. */
async function forget(module: WebLlmModule, modelId: string, { appConfig }: EngineConfig): Promise<void> {
  await module.deleteModelAllInfoInCache?.(modelId, appConfig).catch(() => {});
}

/** WebLLM says of full storage only that it could not fetch. Browsers do not tell how much is free; an attempt to store does. */
async function storageFailure(said: string): Promise<Failure | undefined> {
  const isAboutFiles = /fetch|store|cache|quota/i.test(said);
  return isAboutFiles && (await isStorageFull())
    ? new Failure("quota", `the browser's storage is full: ${said}`, STORAGE_HINT)
    : undefined;
}

async function isStorageFull(): Promise<boolean> {
  try {
    const cache = await caches.open(PROBE);
    await cache.put(new URL(PROBE, location.href), new Response(new Uint8Array(PROBE_BYTES)));
    return false;
  } catch (error) {
    return error instanceof DOMException && error.name === "QuotaExceededError";
  } finally {
    await caches.delete(PROBE).catch(() => {});
  }
}

function loadFailure(name: string, said: string): Failure {
  if (/LinkError|Import #\d+|Imported function/i.test(said)) {
    const hint = "use a model library of the version that this WebLLM asks for; its package names it as modelVersion";
    return new Failure("model", `the model library of ${name} was compiled for another version of WebLLM: ${said}`, hint);
  }
  if (/shader-f16/i.test(said)) {
    return new Failure(
      "webgpu",
      `${name} computes in 16 bits, which this graphics adapter cannot: ${said}`,
      "use a variant q4f32 of the model",
    );
  }
  return new Failure(
    "model",
    `WebLLM could not load ${name}: ${said}`,
    "check that its files are whole and that its library is for it",
  );
}

function describe(metadata: MlcMetadata | undefined, context: number | undefined, version: string): Loaded {
  const budget = metadata && budgetOf(metadata);
  const cells = pagedCells(context ?? positive(metadata?.context_window_size) ?? DEFAULT_CONTEXT);
  const kvBytes = budget?.kvBytesPerToken === undefined ? undefined : budget.kvBytesPerToken * cells;
  if (kvBytes !== undefined && budget?.layers !== undefined) {
    const layerBytes = kvBytes / budget.layers;
    globalThis.dwellHooks?.classifySizes(layerBytes, layerBytes * KV_SLACK, "kv_cache");
  }
  return {
    model: {
      ...(metadata?.model_type !== undefined && { architecture: metadata.model_type }),
      ...(budget?.layers !== undefined && { layers: budget.layers }),
      ...(positive(metadata?.context_window_size) && { context_length: metadata?.context_window_size ?? 0 }),
    },
    kv: {
      ...(kvBytes !== undefined && { bytes: kvBytes, cells, bytes_per_token: budget?.kvBytesPerToken ?? 0 }),
      ...(budget && { type_k: budget.elementType, type_v: budget.elementType }),
      preallocated: true,
      basis: budget ? "metadata of the model library" : "unknown: the model library has no metadata that can be read",
    },
    buffers: budget ? buffersOf(budget, kvBytes) : [],
    has_chat_template: true,
    runtime_version: version,
    device: "webgpu",
  };
}

function buffersOf({ weightBytes, computeBytes }: Budget, kvBytes: number | undefined): Buffer[] {
  const buffers: Buffer[] = [
    { name: "parameters", kind: "weight", bytes: weightBytes, where: "webgpu" },
    { name: "temporary buffers", kind: "compute", bytes: computeBytes, where: "webgpu" },
  ];
  return kvBytes === undefined
    ? buffers
    : [...buffers, { name: "paged KV cache", kind: "kv_cache", bytes: kvBytes, where: "webgpu" }];
}

const positive = (value: number | undefined): number | undefined => (value !== undefined && value > 0 ? value : undefined);

class WebLlmEngine implements Engine {
  readonly #engine: MlcEngine;

  constructor(engine: MlcEngine) {
    this.#engine = engine;
  }

  async generate(options: GenerateOptions): Promise<Generated> {
    options.signal.addEventListener("abort", () => this.#engine.interruptGenerate());
    const stream = new ChunkStream(options);
    const asked = requestOf(options);
    const chunks = options.messages
      ? await this.#engine.chat.completions.create({ ...asked, messages: options.messages })
      : await this.#engine.completions.create({ ...asked, prompt: options.prompt });
    for await (const chunk of chunks) {
      stream.take(chunk);
    }
    return stream.end();
  }

  async unload(): Promise<void> {
    await this.#engine.unload();
  }
}

function requestOf({ maxTokens, temperature, seed, ignoreEnd }: GenerateOptions): Record<string, unknown> {
  return {
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: maxTokens,
    temperature,
    seed,
    ...(ignoreEnd && { ignore_eos: true }),
  };
}
