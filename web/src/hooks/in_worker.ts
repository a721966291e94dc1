/** The hooks inside a worker: they report to the thread that started it, before each of its own messages and when it is idle. */

import { gpuTotal, type GpuTally, type MemoryTally } from "./tally.ts";

const IDLE_MS = 20;

let nextId = 0;

/** `count` counts this thread's own memories without shared ones, and those of workers below it. */
export function reportToParent(count: () => MemoryTally & { gpu: GpuTally }): { share: (memory: WebAssembly.Memory) => void } {
  const post = globalThis.postMessage.bind(globalThis) as (message: unknown) => void;
  let told = "";
  const report = (): void => {
    const counts = count();
    const now = `${counts.wasmBytes} ${counts.memories} ${gpuTotal(counts.gpu)} ${JSON.stringify(counts.gpu.bytes)}`;
    if (now !== told) {
      told = now;
      post({ dwellHooks: { counts } });
    }
  };
  const own = globalThis.postMessage;
  globalThis.postMessage = ((...given: unknown[]) => {
    report();
    return Reflect.apply(own, globalThis, given);
  }) as typeof postMessage;
  setInterval(report, IDLE_MS);
  post({ dwellHooks: {} });
  const freed = new FinalizationRegistry<number>((id) => post({ dwellHooks: { freed: id } }));
  return {
    share: (memory) => {
      const id = nextId++;
      freed.register(memory, id);
      post({ dwellHooks: { shared: { id, memory } } });
    },
  };
}
