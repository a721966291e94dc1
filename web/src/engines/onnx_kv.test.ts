import assert from "node:assert/strict";
import { test } from "node:test";
import { KvWatch, tensorBytes } from "./onnx_kv.ts";
import type { OnnxSession, OnnxTensor } from "./transformers_types.ts";

const tensor = (type: string, dims: number[]): OnnxTensor => ({
  type,
  dims,
  location: "cpu",
  // As in ONNX Runtime, which does not allow the question.
  get gpuBuffer(): GPUBuffer {
    throw new Error("not on the GPU");
  },
});

test("bytes of a tensor", () => {
  assert.equal(tensorBytes(tensor("float32", [1, 2, 5, 16])), 640);
  assert.equal(tensorBytes(tensor("float16", [1, 2, 5, 16])), 320);
  assert.equal(tensorBytes(tensor("float32", [1, 2, 0, 16])), 0);
});

test("the outputs named present are the cache, until generation ends", async () => {
  const session: OnnxSession = {
    run: async () => ({ logits: tensor("float32", [1, 5, 99]), "present.0.key": tensor("float32", [1, 2, 5, 16]) }),
  };
  const watch = new KvWatch();
  watch.watch({ model: session });
  assert.equal(watch.bytes, undefined);
  await session.run({});
  assert.equal(watch.bytes, 640);
  watch.clear();
  assert.equal(watch.bytes, 0);
});
