/** wllama: llama.cpp in WebAssembly, with a GGUF file. */

import { bytes } from "../../../viewer/src/format.ts";
import { Failure } from "../failure.ts";
import { now } from "../sampler.ts";
import type { Buffer, Engine, EngineKind, Generated, GenerateOptions, Loaded, LoadOptions } from "./engine.ts";
import { fetchBlob, packageVersion, runtimeModule, textOf } from "./fetching.ts";
import {
  descriptionFromLog,
  hintFor,
  kvBytesPerCell,
  kvShapeOf,
  LOG_STEP_BYTES,
  memoryFromLog,
  parametersFromLog,
  reasonFrom,
} from "./llama_log.ts";
import { TokenSteps, watchSteps } from "./wllama_steps.ts";
import type { Chunk, ContextInfo, Logger, Timings, Wllama, WllamaModule } from "./wllama_types.ts";

const GGUF_MAGIC = "GGUF";
/** wllama's own default. */
const DEFAULT_CONTEXT = 1024;
const ALL_LAYERS = 99_999;
const LOG_LINES_KEPT = 2_000;
/** wllama hands text over as JSON, and loses a result whose bytes are no text. Models with random weights write such bytes. */
const NO_UTF8 = /invalid UTF-8/i;
/** What stands for bytes that are no text. */
const REPLACEMENT = "\uFFFD";

export const wllama: EngineKind = { load };

async function load(options: LoadOptions): Promise<{ engine: Engine; loaded: Loaded }> {
  const { runtimeUrl, onProgress } = options;
  onProgress(0, "loads wllama");
  const module = await runtimeModule<WllamaModule>("wllama", options.module, new URL("esm/index.js", runtimeUrl).href);
  const blobs = await modelFiles(options);
  const log = new Log();
  const runtime = new module.Wllama(
    { default: new URL("esm/wasm/wllama.wasm", runtimeUrl).href },
    { logger: log.logger, suppressNativeLog: false },
  );
  onProgress(0.9, "reads the model");
  await loadModel(runtime, blobs, options, log);
  const version = await packageVersion(runtimeUrl);
  const loaded = describe(options, runtime, log.lines, version);
  onProgress(1, "ready");
  return { engine: new WllamaEngine(runtime, log), loaded };
}

async function modelFiles({ model, onProgress }: LoadOptions): Promise<Blob[]> {
  const show = (received: number, expected: number): void =>
    onProgress(expected > 0 ? (0.85 * received) / expected : 0, `reads ${model.name}: ${bytes(received)}`);
  const blobs = model.files ?? [await fetchBlob(model.url, show)];
  for (const blob of blobs) {
    const magic = await blob.slice(0, GGUF_MAGIC.length).text();
    if (magic !== GGUF_MAGIC) {
      throw new Failure("model", `${model.name} is not a GGUF file`, "wllama runs GGUF files, whose names end in .gguf");
    }
  }
  return blobs;
}

async function loadModel(runtime: Wllama, blobs: Blob[], options: LoadOptions, log: Log): Promise<void> {
  try {
    await runtime.loadModel(blobs, {
      n_ctx: options.contextLength ?? DEFAULT_CONTEXT,
      n_gpu_layers: options.device === "webgpu" ? ALL_LAYERS : 0,
      // One conversation at a time: more would make the compute buffers larger than what is measured needs.
      n_parallel: 1,
      ...(options.threads !== undefined && { n_threads: options.threads }),
    });
    // A model that llama.cpp refuses is no error for wllama: its description is then empty.
    if (!(runtime.getLoadedContextInfo().n_vocab > 0)) {
      throw new Error("it has no vocabulary");
    }
  } catch (error) {
    await runtime.exit().catch(() => {});
    throw modelFailure(options.model.name, error, log);
  }
}

/** llama.cpp says in its log what is wrong with a model; what is thrown tells less. */
function modelFailure(name: string, error: unknown, { errors }: Log): Failure {
  return new Failure("model", `llama.cpp could not load ${name}: ${reasonFrom(errors) || textOf(error)}`, hintFor(errors));
}

function generateFailure(error: unknown, { errors }: Log): Failure {
  return new Failure("generate", `llama.cpp stopped: ${reasonFrom(errors) || textOf(error)}`, hintFor(errors));
}

/** Where the model lies, by its buffers: without a graphics adapter wllama computes on the processor, whatever was asked for. */
function deviceOf({ device }: LoadOptions, runtime: Wllama, buffers: Buffer[]): string {
  if (buffers.some(({ where }) => where === "webgpu")) {
    return "webgpu";
  }
  const threads = runtime.isMultithread() ? runtime.getNumThreads() : 1;
  const why = device === "webgpu" ? "; WebGPU was asked for, and wllama found no adapter" : "";
  return `wasm, ${threads} ${threads === 1 ? "thread" : "threads"}${why}`;
}

function describe(options: LoadOptions, runtime: Wllama, logged: string[], version: string): Loaded {
  const info = runtime.getLoadedContextInfo();
  const { buffers, kvCells } = memoryFromLog(logged);
  const description = descriptionFromLog(logged);
  const parameters = parametersFromLog(logged);
  return {
    model: {
      ...(description !== "" && { description }),
      architecture: info.metadata["general.architecture"] ?? "unknown",
      layers: info.n_layer,
      context_length: info.n_ctx_train,
      vocabulary: info.n_vocab,
      ...(parameters !== undefined && { parameters }),
    },
    kv: kvOf(info, buffers, kvCells),
    buffers,
    has_chat_template: info.metadata["tokenizer.chat_template"] !== undefined,
    runtime_version: version,
    device: deviceOf(options, runtime, buffers),
  };
}

/** llama.cpp tells sizes rounded; the model's own numbers make them exact if both agree. */
function kvOf(info: ContextInfo, buffers: Loaded["buffers"], cells: number | undefined): Loaded["kv"] {
  const caches = buffers.filter(({ kind }) => kind === "kv_cache");
  const told = caches.reduce((sum, { bytes }) => sum + bytes, 0);
  const shape = kvShapeOf(info.metadata);
  const exact = shape && cells !== undefined ? kvBytesPerCell(shape) * cells : undefined;
  const only = caches.length === 1 ? caches[0] : undefined;
  if (only && shape && exact !== undefined && Math.abs(exact - told) <= LOG_STEP_BYTES) {
    only.bytes = exact;
    const bytes_per_token = kvBytesPerCell(shape);
    return {
      bytes: exact,
      cells: cells ?? 0,
      bytes_per_token,
      type_k: "f16",
      type_v: "f16",
      preallocated: true,
      basis: "llama.cpp's log, made exact by the model's metadata",
    };
  }
  return {
    ...(told > 0 && { bytes: told }),
    ...(cells !== undefined && { cells }),
    preallocated: true,
    basis: "llama.cpp's log, rounded to 0.01 MiB",
  };
}

class Log {
  readonly lines: string[] = [];
  readonly errors: string[] = [];
  readonly logger: Logger = {
    debug: (...given) => this.#keep(given),
    log: (...given) => this.#keep(given),
    warn: (...given) => this.#keep(given),
    error: (...given) => this.#keepError(given),
  };

  /** Whether an error is of this kind; all errors are then forgotten. */
  takeErrors(kind: RegExp): boolean {
    const isOfKind = this.errors.some((line) => kind.test(line));
    if (isOfKind) {
      this.errors.length = 0;
    }
    return isOfKind;
  }

  #keep(given: unknown[]): void {
    if (typeof given[0] === "string" && this.lines.length < LOG_LINES_KEPT) {
      this.lines.push(given[0]);
    }
  }

  #keepError(given: unknown[]): void {
    this.#keep(given);
    this.errors.push(
      given
        .map((each) => (each instanceof Error ? each.message : String(each)))
        .join(" ")
        .trim(),
    );
  }
}

class WllamaEngine implements Engine {
  readonly #runtime: Wllama;
  readonly #log: Log;

  constructor(runtime: Wllama, log: Log) {
    this.#runtime = runtime;
    this.#log = log;
  }

  async generate(options: GenerateOptions): Promise<Generated> {
    const steps = new TokenSteps();
    const stream = new TokenStream(options, steps);
    const isLost = (): boolean => this.#log.takeErrors(NO_UTF8) && stream.lose();
    const stopWatching = watchSteps(this.#runtime, steps, { now, isLost });
    this.#log.errors.length = 0;
    try {
      const asked = requestOf(options);
      const chunks = options.messages
        ? await this.#runtime.createChatCompletion({ ...asked, messages: options.messages })
        : await this.#runtime.createCompletion({ ...asked, prompt: options.prompt });
      for await (const chunk of chunks) {
        stream.take(chunk);
      }
    } catch (error) {
      if (!options.signal.aborted) {
        throw generateFailure(error, this.#log);
      }
    } finally {
      stopWatching();
    }
    return stream.end(options.signal.aborted);
  }

  async unload(): Promise<void> {
    await this.#runtime.exit();
  }
}

function requestOf(options: GenerateOptions): Record<string, unknown> {
  return {
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
    max_tokens: options.maxTokens,
    temperature: options.temperature,
    seed: options.seed,
    ignore_eos: options.ignoreEnd ?? false,
    // Each run computes its prompt, however often the same one is run.
    cache_prompt: false,
    abortSignal: options.signal,
  };
}

/** Tokens from chunks. llama.cpp holds back bytes of an incomplete character, so that a chunk may stand for several tokens. */
class TokenStream {
  readonly #options: GenerateOptions;
  readonly #steps: TokenSteps;
  #told = 0;
  #timings: Timings | undefined;
  #usage: Chunk["usage"];
  #reason: string | undefined;

  constructor(options: GenerateOptions, steps: TokenSteps) {
    this.#options = options;
    this.#steps = steps;
  }

  take({ choices, timings, usage }: Chunk): void {
    const [choice] = choices ?? [];
    const text = choice?.text ?? choice?.delta?.content ?? choice?.delta?.reasoning_content ?? "";
    this.#usage = usage ?? this.#usage;
    this.#reason = choice?.finish_reason ?? this.#reason;
    if (timings) {
      this.#takeTimings(timings, text);
    }
  }

  /** A result was lost: a token, whose bytes may be those of the tokens before it too. */
  lose(): true {
    // Before the first result, nobody knows when it was computed: that result tells it.
    if (this.#timings !== undefined) {
      this.#tell(REPLACEMENT);
    }
    return true;
  }

  end(isAborted: boolean): Generated {
    const timings = this.#timings;
    const prompt_tokens = this.#usage?.prompt_tokens ?? (timings ? timings.prompt_n + timings.cache_n : 0);
    return {
      reason: isAborted ? "aborted" : this.#reason === "length" ? "length" : "stop",
      usage: { prompt_tokens, completion_tokens: this.#usage?.completion_tokens ?? this.#told },
      timings: timings ? { prompt_ms: timings.prompt_ms, predicted_ms: timings.predicted_ms } : {},
    };
  }

  #takeTimings(timings: Timings, text: string): void {
    if (this.#timings === undefined) {
      this.#options.onPrompt({ tokens: timings.prompt_n + timings.cache_n, cached_tokens: timings.cache_n });
    }
    this.#timings = timings;
    this.#steps.promptTook(timings.prompt_ms);
    while (this.#told < timings.predicted_n) {
      const isLast = this.#told === timings.predicted_n - 1;
      this.#tell(isLast ? text : "");
    }
  }

  #tell(text: string): void {
    const t_ms = this.#steps.timeOf(this.#told);
    this.#told++;
    this.#options.onToken({ text, ...(t_ms !== undefined && { t_ms }) });
  }
}
