import assert from "node:assert/strict";
import { test } from "node:test";
import {
  descriptionFromLog,
  hintFor,
  kvBytesPerCell,
  kvShapeOf,
  memoryFromLog,
  parametersFromLog,
  reasonFrom,
} from "./llama_log.ts";

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

test("parameters as the log rounds them", () => {
  assert.equal(parametersFromLog(["print_info: model params          = 134.52 M"]), 134_520_000);
  assert.equal(parametersFromLog(["print_info: model params          = 8.03 B"]), 8_030_000_000);
  assert.equal(parametersFromLog(["print_info: file type   = Q4_1"]), undefined);
});

test("the cause of a failure without its consequences and without names that wllama gave", () => {
  const cut = [
    "llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete",
    "llama_model_load_from_file_impl: failed to load model",
    "cmn  common_init_: failed to load model 'models/model-00001-of-00001.gguf'",
  ];
  assert.equal(
    reasonFrom(cut),
    "tensor 'blk.16.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete",
  );
  const header = [
    "read: string length 14047262688061562948 exceeds maximum 1073741824",
    "gguf_init_from_reader: failed to read key-value pairs",
    "llama_model_load: error loading model: llama_model_loader: failed to load model from models/model-00001-of-00001.gguf",
  ];
  assert.equal(reasonFrom(header), "string length 14047262688061562948 exceeds maximum 1073741824");
  for (const errors of [cut, header]) {
    assert.match(hintFor(errors) ?? "", /cut short or damaged/);
  }
  assert.equal(reasonFrom([]), "");
  assert.equal(reasonFrom(["cmn  common_init_: failed to load model 'x'"]), "failed to load model 'x'", "better than nothing");
  assert.equal(hintFor(["something new"]), undefined);
});

test("what is too large is said with what helps", () => {
  const long = [
    "srv    send_error: task id = 0, error: request (721 tokens) exceeds the available context size (256 tokens), try increasing it",
    "Model returned an error: [object Object]",
  ];
  assert.equal(reasonFrom(long), "request (721 tokens) exceeds the available context size (256 tokens), try increasing it");
  assert.match(hintFor(long) ?? "", /shorten the prompt/);
  const large = [
    "ggml_aligned_malloc: insufficient memory (attempted to allocate 21976.88 MB)",
    "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 23044423680",
  ];
  assert.equal(reasonFrom(large), "insufficient memory (attempted to allocate 21976.88 MB)");
  assert.match(hintFor(large) ?? "", /shorter context/);
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
