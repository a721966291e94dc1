/** Key and value tensors that sessions of ONNX Runtime return: what the cache holds after each run. */

import { pageTurn } from "./page_turn.ts";
import type { OnnxSession, OnnxTensor } from "./transformers_types.ts";

const ELEMENT_BYTES: Record<string, number> = { float32: 4, float16: 2, int8: 1, uint8: 1, float64: 8 };
/** Outputs that transformers.js feeds into the next run. */
const IS_CACHE = /^present/;

export const tensorBytes = ({ type, dims }: OnnxTensor): number =>
  dims.reduce((product, size) => product * size, ELEMENT_BYTES[type] ?? 4);

/** Only tensors that lie on the GPU may be asked for their buffer. */
const gpuBufferOf = (tensor: OnnxTensor): GPUBuffer | undefined =>
  tensor.location === "gpu-buffer" ? tensor.gpuBuffer : undefined;

export class KvWatch {
  #bytes: number | undefined;
  #buffers = new Set<GPUBuffer>();

  /** Looks at what every session returns, and lets the page react after each run: in WebAssembly it computes on the page's thread. */
  watch(sessions: Record<string, OnnxSession>): void {
    for (const session of Object.values(sessions)) {
      const run = session.run.bind(session);
      session.run = async (...given) => {
        const outputs = await run(...given);
        this.#take(Object.entries(outputs).filter(([name]) => IS_CACHE.test(name)));
        await pageTurn();
        return outputs;
      };
    }
  }

  get bytes(): number | undefined {
    return this.#bytes;
  }

  /** Generation has ended, and with it the cache. */
  clear(): void {
    this.#bytes = 0;
    this.#mark(new Set());
  }

  #take(outputs: [string, OnnxTensor][]): void {
    if (outputs.length > 0) {
      this.#bytes = outputs.reduce((sum, [, tensor]) => sum + tensorBytes(tensor), 0);
      this.#mark(new Set(outputs.flatMap(([, tensor]) => gpuBufferOf(tensor) ?? [])));
    }
  }

  /** The tensors of the run before are about to be freed; until they are, they are not the cache. */
  #mark(now: Set<GPUBuffer>): void {
    for (const buffer of this.#buffers) {
      if (!now.has(buffer)) {
        globalThis.dwellHooks?.classify(buffer, "other");
      }
    }
    for (const buffer of now) {
      globalThis.dwellHooks?.classify(buffer, "kv_cache");
    }
    this.#buffers = now;
  }
}
