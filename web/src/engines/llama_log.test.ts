import assert from "node:assert/strict";
import { test } from "node:test";
import { descriptionFromLog, kvBytesPerCell, kvShapeOf, memoryFromLog } from "./llama_log.ts";

const MIB = 1024 * 1024;

test("a model is described as llama.cpp does", () => {
  const lines = [
    "print_info: file type   = Q4_1",
    "print_info: arch                  = llama",
    "print_info: model type            = 256M",
  ];
  assert.equal(descriptionFromLog(lines), "llama 256M Q4_1");
  assert.equal(descriptionFromLog(lines.slice(0, 1)), "Q4_1");
  assert.equal(descriptionFromLog(["nothing"]), "");
});

test("sizes of llama.cpp's log by kind and place", () => {
  const { buffers, kvCells } = memoryFromLog([
    "load_tensors:          CPU model buffer size =    92.10 MiB",
    "llama_context:        CPU  output buffer size =     0.19 MiB",
    "llama_kv_cache: WebGPU KV buffer size =     5.63 MiB",
    "llama_kv_cache: size =    5.63 MiB (   256 cells,  30 layers,  1/1 seqs), K (f16):    2.81 MiB, V (f16):    2.81 MiB",
    "sched_reserve:        CPU compute buffer size =   100.00 MiB",
    "sched_reserve:        CPU compute buffer size =     6.88 MiB",
    "nothing of interest",
  ]);
  assert.equal(kvCells, 256);
  assert.deepEqual(
    buffers.map(({ kind, where, bytes }) => [kind, where, bytes]),
    [
      ["weight", "wasm", Math.round(92.1 * MIB)],
      ["other", "wasm", Math.round(0.19 * MIB)],
      ["kv_cache", "webgpu", Math.round(5.63 * MIB)],
      ["compute", "wasm", Math.round(6.88 * MIB)],
    ],
  );
});

const LLAMA = {
  "general.architecture": "llama",
  "llama.block_count": "30",
  "llama.attention.head_count": "9",
  "llama.attention.head_count_kv": "3",
  "llama.embedding_length": "576",
};

test("bytes of a cell from the metadata of a model", () => {
  const shape = kvShapeOf(LLAMA);
  assert.deepEqual(shape, { layers: 30, kvHeads: 3, keyLength: 64, valueLength: 64 });
  assert.equal(shape && kvBytesPerCell(shape), 30 * 3 * 128 * 2);
  assert.equal(kvShapeOf({ ...LLAMA, "llama.attention.key_length": "128" })?.keyLength, 128);
});

test("metadata that differs by layer, or is missing, gives no shape", () => {
  assert.equal(kvShapeOf({ ...LLAMA, "llama.attention.head_count_kv": "[3, 1]" }), undefined);
  assert.equal(kvShapeOf({}), undefined);
});
