/**
 * Wraps WebAssembly.Memory, instantiation, workers and WebGPU devices so that their memory can be counted. A classic script, which
 * must run before any runtime; the same source runs in workers.
 */

import { addGpu, gpuTotal, noGpu, type Snapshot } from "./tally.ts";
import { classify, classifySizes, gpuPeakBytes, hookGpu, setPhase, tallyGpu } from "./gpu.ts";
import { reportToParent } from "./in_worker.ts";
import { hookMemories, tallyMemories } from "./memories.ts";
import { hookWorkers, tallyWorkers } from "./workers.ts";

const isWorker = typeof document === "undefined";

let peak = 0;

function snapshot(): Snapshot {
  const own = tallyMemories();
  const below = tallyWorkers();
  const gpu = addGpu(addGpu(noGpu(), tallyGpu()), below.gpu);
  const gpuBytes = gpuTotal(gpu);
  peak = Math.max(peak, gpuBytes, gpuPeakBytes());
  return {
    wasmBytes: own.wasmBytes + below.wasmBytes,
    memories: own.memories + below.memories,
    gpu,
    gpuBytes,
    gpuPeakBytes: peak,
    unhookedWorkers: below.unhooked,
  };
}

if (globalThis.dwellHooks === undefined) {
  globalThis.dwellHooks = { snapshot, setPhase, classify, classifySizes };
  const parent = isWorker ? reportToParent(() => snapshot()) : null;
  hookMemories((memory) => {
    const isHandedOver = parent !== null && isShared(memory);
    if (isHandedOver) {
      parent.share(memory);
    }
    return isHandedOver;
  });
  hookGpu();
  hookWorkers();
}

function isShared(memory: WebAssembly.Memory): boolean {
  return typeof SharedArrayBuffer !== "undefined" && memory.buffer instanceof SharedArrayBuffer;
}
