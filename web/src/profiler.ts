/** Profilers for people's own pages: a runtime, its model, and samples of the page's memory. */

import { samplesToCsv, saveText } from "./csv.ts";
import type { Device, Generated, Loaded, Message, Runtime } from "./engines/engine.ts";
import { ENGINES } from "./engines/all.ts";
import { Failure } from "./failure.ts";
import type { Sample } from "./sampler.ts";
import { Session, type Event, type Job, type RuntimeUrls } from "./session.ts";

export interface ProfilerOptions {
  /** Milliseconds between samples, 100 if not given; there is one at each token as well. */
  samplingInterval?: number;
  onSample?: (sample: Sample) => void;
  onToken?: (token: TokenEvent) => void;
  onProgress?: (progress: { fraction: number; text: string }) => void;
}

export interface TokenEvent {
  /** When it was computed, in milliseconds since 1970. */
  t_ms: number;
  index: number;
  /** Empty for a token that is part of a character that later tokens complete. */
  text: string;
  id?: number;
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
  device?: Device;
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

export interface Completion extends Generated {
  text: string;
  tokens: TokenEvent[];
}

const DEFAULTS = { maxTokens: 128, temperature: 0, seed: 0 } as const;
const DEFAULT_INTERVAL_MS = 100;

class Profiler {
  readonly #runtime: Runtime;
  readonly #options: ProfilerOptions;
  #session: Session | null = null;
  #model: Omit<Job, "prompt" | "maxTokens" | "temperature" | "seed"> | null = null;
  #samples: Sample[] = [];
  #tokens: TokenEvent[] = [];
  #loaded: Loaded | null = null;
  #outcome: Event | null = null;

  constructor(runtime: Runtime, options: ProfilerOptions) {
    this.#runtime = runtime;
    this.#options = options;
  }

  /** Loads the model; memory is sampled while it loads. Throws a `Failure` that says what is wrong and what helps. */
  async initialize(options: InitializeOptions): Promise<Loaded> {
    await this.unload();
    const base = new URL(options.runtimeUrl ?? `runtimes/${this.#runtime}/`, location.href).href;
    const onnx = new URL(options.onnxRuntimeUrl ?? "runtimes/onnxruntime_web/", location.href).href;
    const urls: RuntimeUrls = { wllama: base, transformers_js: base, webllm: base, onnxruntime_web: onnx };
    this.#session = new Session(ENGINES, urls, (event) => this.#take(event), options.module);
    this.#model = jobOf(this.#runtime, options, this.#options.samplingInterval ?? DEFAULT_INTERVAL_MS);
    this.#samples = [];
    await this.#run({ ...this.#model, ...DEFAULTS, prompt: "", maxTokens: 0 });
    if (this.#loaded === null) {
      throw new Failure("load", "the runtime did not say that the model is loaded");
    }
    return this.#loaded;
  }

  /** Generates from a text, or from a conversation in the form of the model's chat template. */
  async complete(prompt: string | Message[], options: CompleteOptions = {}): Promise<Completion> {
    if (this.#model === null) {
      throw new Failure("generate", "no model is loaded", "call initialize first");
    }
    const what = typeof prompt === "string" ? { prompt } : { prompt: "", messages: prompt };
    const outcome = await this.#run({ ...this.#model, ...DEFAULTS, ...options, ...what });
    const text = this.#tokens.map((token) => token.text).join("");
    return { reason: outcome.reason, usage: outcome.usage, timings: outcome.timings, text, tokens: this.#tokens };
  }

  /** Ends generation after the token that is being computed. */
  stop(): void {
    this.#session?.stop();
  }

  /** Samples since `initialize` began. */
  getSamples(): Sample[] {
    return [...this.#samples];
  }

  toCSV(label: string = this.#runtime): string {
    return samplesToCsv(this.#samples, label);
  }

  downloadCSV(fileName = "dwell-samples.csv", label?: string): void {
    saveText(fileName, this.toCSV(label));
  }

  /** Frees the model. */
  async unload(): Promise<void> {
    await this.#session?.unload();
    this.#session = null;
    this.#model = null;
    this.#loaded = null;
  }

  async #run(job: Job): Promise<Extract<Event, { type: "done" }>> {
    this.#tokens = [];
    this.#outcome = null;
    await this.#session?.run(job);
    const outcome = this.#outcome as Event | null;
    if (outcome?.type === "done") {
      return outcome;
    }
    throw outcome?.type === "error"
      ? new Failure(outcome.stage, outcome.message, outcome.hint)
      : new Failure("generate", "the run ended without a result");
  }

  #take(event: Event): void {
    if (event.type === "sample") {
      const { type: _, ...sample } = event;
      this.#samples.push(sample);
      this.#options.onSample?.(sample);
    } else if (event.type === "token") {
      const { type: _, count: __, ...token } = event;
      this.#tokens.push(token);
      this.#options.onToken?.(token);
    } else if (event.type === "loading") {
      this.#options.onProgress?.({ fraction: event.fraction, text: event.text });
    } else if (event.type === "loaded") {
      const { type: _, t_ms: __, ...loaded } = event;
      this.#loaded = loaded;
    } else if (event.type !== "prompt") {
      this.#outcome = event;
    }
  }
}

function jobOf(runtime: Runtime, options: InitializeOptions, samplingIntervalMs: number) {
  const { model, library, contextLength, threads, device } = options;
  const source =
    typeof model === "string"
      ? { name: nameOf(model), url: model }
      : Array.isArray(model)
        ? { name: model[0]?.name ?? "files", url: "", files: model }
        : { name: model.id, url: "", id: model.id };
  return {
    runtime,
    samplingIntervalMs,
    model: { ...source, ...(library !== undefined && { library: new URL(library, location.href).href }) },
    ...(contextLength !== undefined && { contextLength }),
    ...(threads !== undefined && { threads }),
    ...(device !== undefined && { device }),
  };
}

/** The last part of an address. */
export const nameOf = (address: string): string => address.split(/[?#]/)[0]?.split("/").filter(Boolean).at(-1) ?? address;

/** llama.cpp in WebAssembly, with a GGUF file: `@wllama/wllama`. */
export class WllamaProfiler extends Profiler {
  constructor(options: ProfilerOptions = {}) {
    super("wllama", options);
  }
}

/** ONNX models: `@huggingface/transformers` with `onnxruntime-web`. */
export class TransformersProfiler extends Profiler {
  constructor(options: ProfilerOptions = {}) {
    super("transformers_js", options);
  }
}

/** Models compiled by MLC, on WebGPU: `@mlc-ai/web-llm`. */
export class WebLLMProfiler extends Profiler {
  constructor(options: ProfilerOptions = {}) {
    super("webllm", options);
  }
}
