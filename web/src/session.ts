/** One model at a time, from loading to unloading, with every event told as it happens: what the page and the driver share. */

import type {
  Device,
  Engine,
  EngineKind,
  Generated,
  Loaded,
  Message,
  ModelSource,
  PromptSize,
  Runtime,
  Token,
} from "./engines/engine.ts";
import { Failure, failureFrom, type Stage } from "./failure.ts";
import { now, Sampler, type Sample } from "./sampler.ts";

export interface Job {
  runtime: Runtime;
  model: ModelSource;
  prompt: string;
  messages?: Message[];
  maxTokens: number;
  temperature: number;
  seed: number;
  contextLength?: number;
  threads?: number;
  device?: Device;
  samplingIntervalMs: number;
  ignoreEnd?: boolean;
  /** Sends the prompt as it is, instead of messages, to a model without a chat template. */
  plainIfNoTemplate?: boolean;
}

export type Event =
  | { type: "loading"; t_ms: number; fraction: number; text: string }
  | ({ type: "loaded"; t_ms: number } & Loaded)
  | ({ type: "prompt"; t_ms: number } & PromptSize)
  | ({ type: "token"; index: number; count: 1 } & Token & { t_ms: number })
  | ({ type: "sample" } & Sample)
  | ({ type: "done"; t_ms: number } & Generated)
  | { type: "error"; t_ms: number; stage: Stage; message: string; hint?: string };

/** Where the files of the runtimes lie, as absolute addresses of folders. */
export interface RuntimeUrls {
  wllama: string;
  transformers_js: string;
  webllm: string;
  onnxruntime_web: string;
}

const NOTHING_GENERATED: Generated = { reason: "length", usage: { prompt_tokens: 0, completion_tokens: 0 }, timings: {} };

interface Held {
  key: string;
  files: File[] | undefined;
  engine: Engine;
  loaded: Loaded;
}

/** Jobs that the same loaded model can run. */
const keyOf = ({ runtime, model: { url, name, id }, contextLength, threads, device }: Job): string =>
  JSON.stringify([runtime, url, name, id, contextLength, threads, device]);

export class Session {
  readonly #kinds: Record<Runtime, EngineKind>;
  readonly #urls: RuntimeUrls;
  readonly #tell: (event: Event) => void;
  readonly #module: unknown;
  #held: Held | null = null;
  #abort = new AbortController();
  #tokens = 0;

  /** `module` is the runtime's module if the page has imported it; otherwise runtimes are imported from their addresses. */
  constructor(kinds: Record<Runtime, EngineKind>, urls: RuntimeUrls, tell: (event: Event) => void, module?: unknown) {
    this.#kinds = kinds;
    this.#urls = urls;
    this.#tell = tell;
    this.#module = module;
  }

  /** Runs a job to its end, its failure or its abortion; never throws. */
  async run(job: Job): Promise<void> {
    this.#abort = new AbortController();
    this.#tokens = 0;
    const sampler = new Sampler({
      intervalMs: job.samplingIntervalMs,
      onSample: (sample) => this.#tell({ type: "sample", ...sample }),
      tokens: () => this.#tokens,
      kvBytes: () => this.#held?.engine.kvBytes?.(),
    });
    // What another model held must not be taken for this one's.
    await this.#makeRoom(job);
    sampler.start();
    const last = await this.#runWith(sampler, job);
    globalThis.dwellHooks?.setPhase("idle");
    sampler.stop();
    this.#tell(last);
  }

  /** Ends generation after the token that is being computed. */
  stop(): void {
    this.#abort.abort();
  }

  async unload(): Promise<void> {
    const held = this.#held;
    this.#held = null;
    await held?.engine.unload();
  }

  async #runWith(sampler: Sampler, job: Job): Promise<Event> {
    let stage: Stage = "load";
    try {
      const held = await this.#load(job);
      this.#tell({ type: "loaded", t_ms: now(), ...held.loaded });
      sampler.take();
      if (this.#abort.signal.aborted) {
        return { type: "done", t_ms: now(), ...NOTHING_GENERATED, reason: "aborted" };
      }
      if (job.maxTokens === 0) {
        return { type: "done", t_ms: now(), ...NOTHING_GENERATED };
      }
      stage = "generate";
      return { type: "done", ...(await this.#generate(held, job, sampler)), t_ms: now() };
    } catch (thrown) {
      const { stage: failed, message, hint } = failureFrom(thrown, stage);
      return { type: "error", t_ms: now(), stage: failed, message, ...(hint !== undefined && { hint }) };
    }
  }

  #isHeld(job: Job): boolean {
    return this.#held?.key === keyOf(job) && this.#held.files === job.model.files;
  }

  async #makeRoom(job: Job): Promise<void> {
    if (!this.#isHeld(job)) {
      // A runtime that failed may fail again when it is freed; the new model does not depend on it.
      await this.unload().catch(() => {});
    }
  }

  async #load(job: Job): Promise<Held> {
    if (this.#held !== null) {
      return this.#held;
    }
    // A job may come from outside.
    const kind = this.#kinds[job.runtime] as EngineKind | undefined;
    if (kind === undefined) {
      throw new Failure("runtime", `there is no runtime ${job.runtime}`, `use one of ${Object.keys(this.#kinds).join(", ")}`);
    }
    globalThis.dwellHooks?.setPhase("load");
    const { engine, loaded } = await kind.load({
      runtimeUrl: this.#urls[job.runtime],
      ...(this.#module !== undefined && { module: this.#module }),
      onnxRuntimeUrl: this.#urls.onnxruntime_web,
      model: { ...job.model, url: new URL(job.model.url, location.href).href },
      ...(job.contextLength !== undefined && { contextLength: job.contextLength }),
      ...(job.threads !== undefined && { threads: job.threads }),
      ...(job.device !== undefined && { device: job.device }),
      onProgress: (fraction, text) => this.#tell({ type: "loading", t_ms: now(), fraction, text }),
    });
    this.#held = { key: keyOf(job), files: job.model.files, engine, loaded };
    return this.#held;
  }

  #generate({ engine, loaded }: Held, job: Job, sampler: Sampler): Promise<Generated> {
    globalThis.dwellHooks?.setPhase("generate");
    const isPlain = job.messages === undefined || (job.plainIfNoTemplate === true && !loaded.has_chat_template);
    return engine.generate({
      prompt: job.prompt,
      ...(!isPlain && job.messages && { messages: job.messages }),
      maxTokens: job.maxTokens,
      temperature: job.temperature,
      seed: job.seed,
      ...(job.ignoreEnd !== undefined && { ignoreEnd: job.ignoreEnd }),
      signal: this.#abort.signal,
      onPrompt: (prompt) => this.#tell({ type: "prompt", t_ms: now(), ...prompt }),
      onToken: (token) => {
        const index = this.#tokens++;
        this.#tell({ type: "token", index, count: 1, ...token, t_ms: token.t_ms ?? now() });
        sampler.take();
      },
    });
  }
}
