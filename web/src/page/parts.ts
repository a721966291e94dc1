/** What the memory of a page holds at a moment, in parts of which none is part of another. */

import type { Buffer, Loaded } from "../engines/engine.ts";
import type { Sample } from "../sampler.ts";

export interface Parts {
  t_ms: number;
  tokens: number;
  weights: number;
  kvCache: number;
  compute: number;
  gpuRest: number;
  wasmRest: number;
  heap: number;
}

/** WebAssembly memory is split by what the runtime says that it allocated there, once it has said it. */
export function partsOf(sample: Sample, loaded: Loaded | null): Parts {
  const inWasm = (...kinds: Buffer["kind"][]): number =>
    (loaded?.buffers ?? [])
      .filter(({ where, kind }) => where === "wasm" && kinds.includes(kind))
      .reduce((sum, { bytes }) => sum + bytes, 0);
  const told = { weights: inWasm("weight"), kvCache: inWasm("kv_cache"), compute: inWasm("compute", "other") };
  const sum = told.weights + told.kvCache + told.compute;
  const isSplit = sum <= sample.wasm_bytes;
  const wasm = isSplit
    ? { ...told, rest: sample.wasm_bytes - sum }
    : { weights: 0, kvCache: 0, compute: 0, rest: sample.wasm_bytes };
  return {
    t_ms: sample.t_ms,
    tokens: sample.tokens,
    weights: sample.gpu.weight + wasm.weights,
    kvCache: sample.gpu.kv_cache + wasm.kvCache,
    compute: wasm.compute,
    gpuRest: sample.gpu.other,
    wasmRest: wasm.rest,
    heap: sample.heap_used_bytes ?? 0,
  };
}

/** Memory that a page can see. The heap holds neither WebAssembly nor graphics memory. */
export const totalOf = ({ heap_used_bytes = 0, wasm_bytes, gpu_bytes }: Sample): number =>
  heap_used_bytes + wasm_bytes + gpu_bytes;
