/** Reads what the page can know of its memory. */

import type { GpuKind } from "./hooks/tally.ts";

/** Memory at one moment. Fields that this browser or page cannot know are left out. */
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
  gpu: Record<GpuKind, number>;
  /** Storage of this site. */
  storage_bytes?: number;
  /** Key and value tensors that the runtime holds, where it shows them to the page. */
  kv_bytes?: number;
  /** Tokens of the request that the page has received. */
  tokens: number;
}

interface PageMemory {
  usedJSHeapSize: number;
  totalJSHeapSize: number;
}

interface MeasuringPerformance extends Performance {
  memory?: PageMemory;
  measureUserAgentSpecificMemory?: () => Promise<{ bytes: number }>;
}

/** A measurement waits for a garbage collection, which takes seconds: more often than this, it would cost more than it tells. */
const BETWEEN_MEASUREMENTS_MS = 5_000;
const BETWEEN_ESTIMATES_MS = 1_000;

const page = performance as MeasuringPerformance;

export const now = (): number => performance.timeOrigin + performance.now();

export interface SamplerOptions {
  /** 0 takes no samples at all. */
  intervalMs: number;
  onSample: (sample: Sample) => void;
  tokens: () => number;
  kvBytes?: () => number | undefined;
}

/** Samples at an interval from `start` to `stop`, and whenever `take` is called. */
export class Sampler {
  readonly #options: SamplerOptions;
  #timer: ReturnType<typeof setInterval> | undefined;
  #slow: ReturnType<typeof setInterval> | undefined;
  #measured: number | undefined;
  #measuredAt = -Infinity;
  #isMeasuring = false;
  #storage: number | undefined;

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#options.intervalMs === 0) {
      return;
    }
    this.#timer = setInterval(() => this.take(), this.#options.intervalMs);
    this.#slow = setInterval(() => this.#ask(), BETWEEN_ESTIMATES_MS);
    this.#ask();
    this.take();
  }

  stop(): void {
    clearInterval(this.#timer);
    clearInterval(this.#slow);
    this.take();
  }

  /** A sample now. */
  take(): void {
    const { intervalMs, onSample, tokens, kvBytes } = this.#options;
    if (intervalMs === 0) {
      return;
    }
    const hooks = globalThis.dwellHooks?.snapshot();
    // Each access has the browser count the heap.
    const { memory } = page;
    const sample: Sample = {
      t_ms: now(),
      ...(memory && { heap_used_bytes: memory.usedJSHeapSize, heap_total_bytes: memory.totalJSHeapSize }),
      wasm_bytes: hooks?.wasmBytes ?? 0,
      gpu_bytes: hooks?.gpuBytes ?? 0,
      gpu: hooks?.gpu.bytes ?? { weight: 0, kv_cache: 0, other: 0 },
      tokens: tokens(),
    };
    setIfKnown(sample, "storage_bytes", this.#storage);
    setIfKnown(sample, "kv_bytes", kvBytes?.());
    setIfKnown(sample, "ua_memory_bytes", this.#measured);
    this.#measured = undefined;
    onSample(sample);
  }

  #ask(): void {
    // Private windows and pages without a secure origin have no storage manager.
    navigator.storage?.estimate().then(
      ({ usage }) => (this.#storage = usage),
      () => {},
    );
    if (page.measureUserAgentSpecificMemory && crossOriginIsolated && !this.#isMeasuring) {
      if (performance.now() - this.#measuredAt >= BETWEEN_MEASUREMENTS_MS) {
        void this.#measure(page.measureUserAgentSpecificMemory.bind(page));
      }
    }
  }

  async #measure(measure: () => Promise<{ bytes: number }>): Promise<void> {
    this.#isMeasuring = true;
    try {
      this.#measured = (await measure()).bytes;
    } catch {
      // A page that is being left refuses; there is nothing to tell.
    } finally {
      this.#measuredAt = performance.now();
      this.#isMeasuring = false;
    }
  }
}

function setIfKnown<Key extends "storage_bytes" | "kv_bytes" | "ua_memory_bytes">(
  sample: Sample,
  key: Key,
  value: number | undefined,
): void {
  if (value !== undefined) {
    sample[key] = value;
  }
}
