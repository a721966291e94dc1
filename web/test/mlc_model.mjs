// Writes the folder of a model as WebLLM takes it, without weights, and with a library that has metadata and no code: no library that
// runs is in any package registry.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { varint } from "./protobuf.mjs";

/** As the compiler of MLC writes it: one layer of each kind is enough to know the sums. */
export const METADATA = {
  model_type: "llama",
  quantization: "q4f32_1",
  context_window_size: 2048,
  prefill_chunk_size: 512,
  params: [
    { name: "embed.q_weight", shape: [100, 8], dtype: "uint32" },
    { name: "embed.q_scale", shape: [100, 2], dtype: "float32" },
    { name: "norm.weight", shape: [64], dtype: "float32" },
  ],
  memory_usage: { prefill: 5000, decode: 700 },
  kv_cache: { num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16 },
};

/** A WebAssembly module of nothing but a section for comments. */
export function library(metadata = METADATA) {
  const name = Buffer.from("metadata");
  const content = Buffer.concat([varint(name.length), name, Buffer.from(JSON.stringify(metadata))]);
  return Buffer.concat([Buffer.from([0, 97, 115, 109, 1, 0, 0, 0, 0]), varint(content.length), content]);
}

const CHAT = {
  model_type: "llama",
  vocab_size: 260,
  context_window_size: 2048,
  sliding_window_size: -1,
  attention_sink_size: -1,
  tokenizer_files: ["tokenizer.json"],
  conv_template: {
    system_template: "{system_message}",
    system_message: "",
    roles: { user: "a", assistant: "b", tool: "c" },
    seps: ["\n"],
    stop_str: [],
    stop_token_ids: [],
  },
};

export async function writeMlcModel(folder) {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "mlc-chat-config.json"), JSON.stringify(CHAT));
  await writeFile(join(folder, "model.wasm"), library());
}
