/** WebAssembly memories of this thread: those that JavaScript makes, and those that modules make and export. */

import type { MemoryTally } from "./tally.ts";

const memories = new Set<WeakRef<WebAssembly.Memory>>();
const known = new WeakSet<WebAssembly.Memory>();
let isCountedElsewhere: (memory: WebAssembly.Memory) => boolean = () => false;

/** `handOver` is asked once for each memory, and answers whether another thread counts it from now on. */
export function hookMemories(handOver: (memory: WebAssembly.Memory) => boolean): void {
  isCountedElsewhere = handOver;
  WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
    construct: (target, given, newTarget) => registered(Reflect.construct(target, given, newTarget)),
  });
  WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
    construct: (target, given, newTarget) => {
      const instance = Reflect.construct(target, given, newTarget);
      registerExports(instance, given[1]);
      return instance;
    },
  });
  hookInstantiate("instantiate");
  hookInstantiate("instantiateStreaming");
}

/** Memories that live: one that was collected is gone. */
export function tallyMemories(): MemoryTally {
  let wasmBytes = 0;
  for (const reference of memories) {
    const memory = reference.deref();
    if (memory === undefined) {
      memories.delete(reference);
    } else {
      wasmBytes += memory.buffer.byteLength;
    }
  }
  return { wasmBytes, memories: memories.size };
}

function registered(memory: WebAssembly.Memory): WebAssembly.Memory {
  if (!known.has(memory)) {
    known.add(memory);
    if (!isCountedElsewhere(memory)) {
      memories.add(new WeakRef(memory));
    }
  }
  return memory;
}

function hookInstantiate(name: "instantiate" | "instantiateStreaming"): void {
  WebAssembly[name] = new Proxy(WebAssembly[name] as Function, {
    apply: (target, self, given) =>
      Reflect.apply(target, self, given).then((made: WebAssembly.Instance | WebAssembly.WebAssemblyInstantiatedSource) => {
        registerExports("instance" in made ? made.instance : made, given[1]);
        return made;
      }),
  }) as never;
}

/** A memory that a module exports but has imported is of another thread, which counts it, or was made here, and is counted. */
function registerExports(instance: WebAssembly.Instance, imports: WebAssembly.Imports | undefined): void {
  const imported = new Set(Object.values(imports ?? {}).flatMap((module) => Object.values(module)));
  for (const each of Object.values(instance.exports)) {
    if (each instanceof WebAssembly.Memory && !imported.has(each)) {
      registered(each);
    }
  }
}
