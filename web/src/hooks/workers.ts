/**
 * Counts of workers. A worker whose script is a Blob gets these hooks in front of its script. One that has an address must load them
 * itself, since a script in front of it would change the address that its relative addresses start from.
 */

import { addGpu, noGpu, type GpuTally, type MemoryTally } from "./tally.ts";

/** What a worker posts to the thread that started it. The other messages are its own. */
interface Report {
  dwellHooks: {
    /** A shared memory, which the page reads itself while the worker computes. */
    shared?: { id: number; memory: WebAssembly.Memory };
    freed?: number;
    counts?: { wasmBytes: number; memories: number; gpu: GpuTally };
  };
}

interface Known {
  shared: Map<number, WebAssembly.Memory>;
  own: { wasmBytes: number; memories: number };
  gpu: GpuTally;
  isHooked: boolean;
}

/** This script with its wrapper, in front of it by the build. */
declare const dwellHooksSource: string;

const workers = new Set<Known>();
const blobs = new Map<string, Blob>();

export function hookWorkers(): void {
  if (typeof Worker === "undefined") {
    return;
  }
  const { createObjectURL, revokeObjectURL } = URL;
  URL.createObjectURL = (what: Blob | MediaSource) => {
    const address = createObjectURL.call(URL, what);
    if (what instanceof Blob) {
      blobs.set(address, what);
    }
    return address;
  };
  URL.revokeObjectURL = (address: string) => {
    blobs.delete(address);
    revokeObjectURL.call(URL, address);
  };
  globalThis.Worker = new Proxy(Worker, {
    construct: (target, [address, options], newTarget) => {
      const script = blobs.get(String(address));
      const started = script === undefined ? address : createObjectURL.call(URL, withHooks(script, options?.type === "module"));
      return follow(Reflect.construct(target, [started, options], newTarget));
    },
  });
}

/** Counts of all workers that live, and of the workers that they started. */
export function tallyWorkers(): MemoryTally & { gpu: GpuTally; unhooked: number } {
  const sum = { wasmBytes: 0, memories: 0, gpu: noGpu(), unhooked: 0 };
  for (const { shared, own, gpu, isHooked } of workers) {
    sum.wasmBytes += own.wasmBytes;
    sum.memories += own.memories + shared.size;
    for (const memory of shared.values()) {
      sum.wasmBytes += memory.buffer.byteLength;
    }
    addGpu(sum.gpu, gpu);
    sum.unhooked += isHooked ? 0 : 1;
  }
  return sum;
}

/** Imports run in order; statements would run after every import of the script. */
function withHooks(script: Blob, isModule: boolean): Blob {
  const type = "text/javascript";
  if (!isModule) {
    return new Blob([dwellHooksSource, ";\n", script], { type });
  }
  const addresses = [new Blob([dwellHooksSource], { type }), new Blob([script], { type })].map((each) =>
    URL.createObjectURL(each),
  );
  return new Blob(
    addresses.map((address) => `import ${JSON.stringify(address)};\n`),
    { type },
  );
}

function follow(worker: Worker): Worker {
  const known: Known = { shared: new Map(), own: { wasmBytes: 0, memories: 0 }, gpu: noGpu(), isHooked: false };
  workers.add(known);
  // First of all listeners, because the page has had no chance to add one: it never sees these messages.
  worker.addEventListener("message", (event) => {
    const report = (event.data as Partial<Report> | null)?.dwellHooks;
    if (report) {
      event.stopImmediatePropagation();
      take(known, report);
    }
  });
  const { terminate } = worker;
  worker.terminate = () => {
    workers.delete(known);
    terminate.call(worker);
  };
  return worker;
}

function take(known: Known, { shared, freed, counts }: Report["dwellHooks"]): void {
  known.isHooked = true;
  if (shared) {
    known.shared.set(shared.id, shared.memory);
  }
  if (freed !== undefined) {
    known.shared.delete(freed);
  }
  if (counts) {
    known.own = counts;
    known.gpu = counts.gpu;
  }
}
