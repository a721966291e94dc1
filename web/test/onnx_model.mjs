// Writes a small decoder with a KV cache as transformers.js takes it: node test/onnx_model.mjs OUT_DIR
//
// Random weights, attention with fewer key and value heads than query heads, one token per byte of text.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { bytes, message, number } from "./protobuf.mjs";

export const SHAPE = { layers: 3, heads: 4, kvHeads: 2, headLength: 16, width: 64, vocabulary: 260 };

/** Bytes that a cache of 32-bit floats takes for each token. */
export const KV_BYTES_PER_TOKEN = 2 * SHAPE.layers * SHAPE.kvHeads * SHAPE.headLength * 4;

const FLOAT = 1;
const INT64 = 7;
const IR_VERSION = 8;
const OPSET = 14;

/** Numbers between -1 and 1, the same ones each time. */
function* noise() {
  let state = 12_345;
  while (true) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    yield (state / 2 ** 31 - 1) * 0.5;
  }
}
const random = noise();

const floats = (name, dims) => {
  const values = Float32Array.from({ length: dims.reduce((product, size) => product * size, 1) }, () => random.next().value);
  return tensor(name, FLOAT, dims, Buffer.from(values.buffer));
};
const integers = (name, values) =>
  tensor(name, INT64, [values.length], Buffer.from(BigInt64Array.from(values.map(BigInt)).buffer));
const tensor = (name, type, dims, raw) =>
  message(5, ...dims.map((size) => number(1, size)), number(2, type), bytes(8, name), bytes(9, raw));

const integer = (name, value) => message(5, bytes(1, name), number(3, value), number(20, 2));
const list = (name, values) => message(5, bytes(1, name), ...values.map((value) => number(8, value)), number(20, 7));
const node = (kind, inputs, output, ...attributes) =>
  message(1, ...inputs.map((name) => bytes(1, name)), bytes(2, output), bytes(3, output), bytes(4, kind), ...attributes);

/** Sizes are numbers, or names of sizes that differ from run to run. */
const value = (field, name, type, dims) => {
  const sizes = dims.map((size) => message(1, typeof size === "number" ? number(1, size) : bytes(2, size)));
  return message(field, bytes(1, name), message(2, message(1, number(1, type), message(2, ...sizes))));
};

function layer(index) {
  const { heads, kvHeads, headLength, width } = SHAPE;
  const at = (name) => `layer${index}.${name}`;
  const from = index === 0 ? "embedded" : `layer${index - 1}.out`;
  const split = (name, count, weight) => [
    node("MatMul", [from, at(weight)], at(`${name}.flat`)),
    node("Reshape", [at(`${name}.flat`), `heads${count}`], at(`${name}.heads`)),
    node("Transpose", [at(`${name}.heads`)], at(name), list("perm", [0, 2, 1, 3])),
  ];
  const repeat = heads / kvHeads;
  const cached = (name) => [
    node("Concat", [`past_key_values.${index}.${name}`, at(name)], `present.${index}.${name}`, integer("axis", 2)),
    node("Concat", Array(repeat).fill(`present.${index}.${name}`), at(`${name}.all`), integer("axis", 1)),
  ];
  return {
    weights: [
      floats(at("wq"), [width, heads * headLength]),
      floats(at("wk"), [width, kvHeads * headLength]),
      floats(at("wv"), [width, kvHeads * headLength]),
      floats(at("wo"), [heads * headLength, width]),
    ],
    nodes: [
      ...split("query", heads, "wq"),
      ...split("key", kvHeads, "wk"),
      ...split("value", kvHeads, "wv"),
      ...cached("key"),
      ...cached("value"),
      node("Transpose", [at("key.all")], at("key.turned"), list("perm", [0, 1, 3, 2])),
      node("MatMul", [at("query"), at("key.turned")], at("scores")),
      node("Softmax", [at("scores")], at("shares"), integer("axis", 3)),
      node("MatMul", [at("shares"), at("value.all")], at("mixed")),
      node("Transpose", [at("mixed")], at("mixed.turned"), list("perm", [0, 2, 1, 3])),
      node("Reshape", [at("mixed.turned"), "flat"], at("mixed.flat")),
      node("MatMul", [at("mixed.flat"), at("wo")], at("attended")),
      node("Add", [from, at("attended")], at("out")),
    ],
  };
}

function model() {
  const { layers, heads, kvHeads, headLength, width, vocabulary } = SHAPE;
  const all = Array.from({ length: layers }, (_, index) => layer(index));
  const cache = (field, name, length) =>
    Array.from({ length: layers }, (_, index) =>
      ["key", "value"].map((what) => value(field, `${name}.${index}.${what}`, FLOAT, [1, kvHeads, length, headLength])),
    ).flat();
  const graph = message(
    7,
    node("Gather", ["embedding", "input_ids"], "embedded"),
    ...all.flatMap(({ nodes }) => nodes),
    node("MatMul", [`layer${layers - 1}.out`, "head"], "logits"),
    bytes(2, "decoder"),
    floats("embedding", [vocabulary, width]),
    floats("head", [width, vocabulary]),
    integers(`heads${heads}`, [0, 0, heads, headLength]),
    integers(`heads${kvHeads}`, [0, 0, kvHeads, headLength]),
    integers("flat", [0, 0, heads * headLength]),
    ...all.flatMap(({ weights }) => weights),
    value(11, "input_ids", INT64, [1, "tokens"]),
    ...cache(11, "past_key_values", "past"),
    value(12, "logits", FLOAT, [1, "tokens", vocabulary]),
    ...cache(12, "present", "total"),
  );
  return Buffer.concat([number(1, IR_VERSION), bytes(2, "dwell"), graph, message(8, number(2, OPSET))]);
}

/** The characters that stand for bytes in byte-level vocabularies. */
function byteCharacters() {
  const plain = [...Array(256).keys()].filter((byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173));
  let next = 256;
  return [...Array(256).keys()].map((byte) => String.fromCodePoint(plain.includes(byte) ? byte : next++));
}

function tokenizer() {
  const vocab = Object.fromEntries(byteCharacters().map((character, id) => [character, id]));
  const specials = ["<s>", "</s>", "<a>", "<b>"].map((content, index) => ({ id: 256 + index, content, special: true }));
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
  return {
    version: "1.0",
    added_tokens: specials.map((each) => ({ single_word: false, lstrip: false, rstrip: false, normalized: false, ...each })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: { type: "BPE", vocab: { ...vocab, "<s>": 256, "</s>": 257, "<a>": 258, "<b>": 259 }, merges: [] },
  };
}

const CONFIG = {
  architectures: ["LlamaForCausalLM"],
  model_type: "llama",
  hidden_size: SHAPE.width,
  num_hidden_layers: SHAPE.layers,
  num_attention_heads: SHAPE.heads,
  num_key_value_heads: SHAPE.kvHeads,
  head_dim: SHAPE.headLength,
  max_position_embeddings: 512,
  vocab_size: SHAPE.vocabulary,
  bos_token_id: 256,
  eos_token_id: 257,
};
const TOKENIZER_CONFIG = {
  tokenizer_class: "PreTrainedTokenizerFast",
  bos_token: "<s>",
  eos_token: "</s>",
  chat_template: "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}",
};

/** Writes the folder of the model. */
export async function writeOnnxModel(folder) {
  await mkdir(join(folder, "onnx"), { recursive: true });
  const json = { "config.json": CONFIG, "tokenizer.json": tokenizer(), "tokenizer_config.json": TOKENIZER_CONFIG };
  for (const [name, content] of Object.entries(json)) {
    await writeFile(join(folder, name), JSON.stringify(content));
  }
  await writeFile(join(folder, "onnx/model.onnx"), model());
}

if (process.argv[1] === import.meta.filename) {
  await writeOnnxModel(process.argv[2]);
}
