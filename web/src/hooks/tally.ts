/** What the hooks have counted: shared by the hooks, which run in the page and in workers, and by the sampler, which reads them. */

export const GPU_KINDS = ["weight", "kv_cache", "other"] as const;
export type GpuKind = (typeof GPU_KINDS)[number];

/** Live WebGPU memory in bytes by what it holds, as far as that is known. */
export interface GpuTally {
  bytes: Record<GpuKind, number>;
  textureBytes: number;
  buffers: number;
  textures: number;
}

export interface MemoryTally {
  /** Bytes of live WebAssembly memories. */
  wasmBytes: number;
  memories: number;
}

export interface Snapshot extends MemoryTally {
  gpu: GpuTally;
  gpuBytes: number;
  gpuPeakBytes: number;
  /** Workers that do not run these hooks: their memories are counted only if the page made them. */
  unhookedWorkers: number;
}

/** The global object of the hooks. */
export interface Hooks {
  snapshot(): Snapshot;
  /** While a model loads, buffers that the processor fills hold weights. */
  setPhase(phase: Phase): void;
  /** States what a buffer holds, which its usage and label do not tell. */
  classify(buffer: GPUBuffer, kind: GpuKind): void;
  /** States what live storage buffers of some sizes hold that were not filled by the processor; returns how many there are. */
  classifySizes(leastBytes: number, mostBytes: number, kind: GpuKind): number;
}

export type Phase = "idle" | "load" | "generate";

export const noGpu = (): GpuTally => ({
  bytes: { weight: 0, kv_cache: 0, other: 0 },
  textureBytes: 0,
  buffers: 0,
  textures: 0,
});

export function addGpu(sum: GpuTally, more: GpuTally): GpuTally {
  for (const kind of GPU_KINDS) {
    sum.bytes[kind] += more.bytes[kind];
  }
  sum.textureBytes += more.textureBytes;
  sum.buffers += more.buffers;
  sum.textures += more.textures;
  return sum;
}

/** Textures count as part of what is neither weights nor KV cache. */
export const gpuTotal = ({ bytes }: GpuTally): number => bytes.weight + bytes.kv_cache + bytes.other;

declare global {
  var dwellHooks: Hooks | undefined;
}
