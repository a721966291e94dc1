import assert from "node:assert/strict";
import { test } from "node:test";
import type { Loaded } from "../engines/engine.ts";
import type { Sample } from "../sampler.ts";
import { partsOf, totalOf } from "./parts.ts";

const SAMPLE: Sample = {
  t_ms: 0,
  heap_used_bytes: 10,
  wasm_bytes: 1000,
  gpu_bytes: 60,
  gpu: { weight: 30, kv_cache: 20, other: 10 },
  tokens: 1,
};
const LOADED: Loaded = {
  model: {},
  kv: { preallocated: true, basis: "" },
  buffers: [
    { name: "a", kind: "weight", bytes: 400, where: "wasm" },
    { name: "b", kind: "kv_cache", bytes: 100, where: "wasm" },
    { name: "c", kind: "compute", bytes: 50, where: "wasm" },
    { name: "d", kind: "weight", bytes: 30, where: "webgpu" },
  ],
  has_chat_template: false,
  runtime_version: "",
  device: "",
};

const sum = ({ t_ms: _, tokens: __, ...parts }: ReturnType<typeof partsOf>): number =>
  Object.values(parts).reduce((all, part) => all + part, 0);

test("the parts add up to what the page sees, before and after the runtime tells of its buffers", () => {
  const before = partsOf(SAMPLE, null);
  assert.equal(before.wasmRest, 1000);
  const after = partsOf(SAMPLE, LOADED);
  assert.deepEqual([after.weights, after.kvCache, after.compute, after.wasmRest], [430, 120, 50, 450]);
  assert.equal(sum(before), totalOf(SAMPLE));
  assert.equal(sum(after), totalOf(SAMPLE));
});

test("a runtime that claims more than there is does not split the memory", () => {
  const small = { ...SAMPLE, wasm_bytes: 500 };
  assert.equal(partsOf(small, LOADED).wasmRest, 500);
  assert.equal(sum(partsOf(small, LOADED)), totalOf(small));
});
