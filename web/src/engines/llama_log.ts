/** What llama.cpp says of its memory while it loads a model. */

import type { Buffer } from "./engine.ts";

const MIB = 1024 * 1024;
const SIZE = /(\S+)\s+(model|KV|compute|output|RS) buffer size\s*=\s*([\d.]+)\s*MiB/;
const CELLS = /\(\s*(\d+) cells/;
const KINDS: Record<string, Buffer["kind"]> = {
  model: "weight",
  KV: "kv_cache",
  RS: "kv_cache",
  compute: "compute",
  output: "other",
};
/** Sizes are told in MiB with two decimals. */
export const LOG_STEP_BYTES = MIB / 100;

export interface LlamaMemory {
  buffers: Buffer[];
  kvCells: number | undefined;
}

/** llama.cpp may reserve the compute buffer more than once; the last size is the one that is used. */
export function memoryFromLog(lines: string[]): LlamaMemory {
  const buffers = new Map<string, Buffer>();
  let kvCells: number | undefined;
  for (const line of lines) {
    const [, backend = "", what = "", mib = ""] = SIZE.exec(line) ?? [];
    const kind = KINDS[what];
    if (kind !== undefined) {
      const where = /webgpu/i.test(backend) ? "webgpu" : "wasm";
      buffers.set(`${backend} ${what}`, { name: `${backend} ${what}`, kind, bytes: Math.round(Number(mib) * MIB), where });
    }
    kvCells ??= cellsOf(line);
  }
  return { buffers: [...buffers.values()], kvCells };
}

function cellsOf(line: string): number | undefined {
  const [, cells] = CELLS.exec(line) ?? [];
  return cells === undefined ? undefined : Number(cells);
}

const ABOUT_MODEL = ["arch", "model type", "file type"];

/** The model in llama.cpp's words, such as `llama 256M Q4_1`; empty if the log does not say. */
export function descriptionFromLog(lines: string[]): string {
  const said = ABOUT_MODEL.map((name) => {
    const value = new RegExp(`print_info: ${name}\\s+= (.+)`);
    return lines.map((line) => value.exec(line)?.[1]?.trim()).find((found) => found !== undefined);
  });
  return said.filter(Boolean).join(" ");
}

const PARAMETERS = /print_info: model params\s+= ([\d.]+) ([KMBT])$/;
const PARAMETER_UNITS: Record<string, number> = { K: 1e3, M: 1e6, B: 1e9, T: 1e12 };

/** Parameters of the model, as far as the log's two decimals tell; undefined if it does not say. */
export function parametersFromLog(lines: string[]): number | undefined {
  const [, number = "", unit = ""] = lines.map((line) => PARAMETERS.exec(line.trim())).find((found) => found !== null) ?? [];
  const factor = PARAMETER_UNITS[unit];
  return factor === undefined ? undefined : Math.round(Number(number) * factor);
}

/** Who says it: `llama_model_load: error loading model: `, `srv    send_error: task id = 0, error: `. */
const SPEAKER = /^(?:(?:srv|slot|cmn|que|res) +)?(?:\w+: +)?(?:task id = \d+, )?(?:error: |error loading model: )?/;
/** What only follows from the line before it. The file is called by a name that wllama gave it. */
const CONSEQUENCE = /failed to (?:load model|create context|read key-value pairs|allocate)|^Model returned an error|^Stack trace/;
const REASONS_SHOWN = 2;

/** Why llama.cpp could not go on, by the errors of its log; empty if they do not say. */
export function reasonFrom(errors: string[]): string {
  const causes = errors.filter((line) => !CONSEQUENCE.test(line));
  const reasons = new Set((causes.length > 0 ? causes : errors).map((line) => line.replace(SPEAKER, "").trim()));
  return [...reasons].filter(Boolean).slice(0, REASONS_SHOWN).join("; ");
}

const HINTS: readonly (readonly [RegExp, string])[] = [
  [/exceeds the available context/i, "shorten the prompt, or choose a longer context"],
  [/insufficient memory|failed to allocate|out of memory/i, "choose a smaller model or a shorter context"],
  [/unknown model architecture/i, "this version of wllama does not know such models: choose another one"],
  [
    /incomplete|corrupt|not within|bounds|unexpectedly reached|failed to read|gguf_init/i,
    "the file is cut short or damaged: get it again",
  ],
];

/** What helps against the errors of llama.cpp's log, if that is known. */
export function hintFor(errors: string[]): string | undefined {
  const said = errors.join("\n");
  return HINTS.find(([kind]) => kind.test(said))?.[1];
}

export interface KvShape {
  layers: number;
  kvHeads: number;
  keyLength: number;
  valueLength: number;
}

/** Heads and lengths as a GGUF file states them; undefined if they differ by layer or are not stated. */
export function kvShapeOf(metadata: Record<string, string>): KvShape | undefined {
  const architecture = metadata["general.architecture"] ?? "";
  const value = (key: string): number | undefined => {
    const text = metadata[`${architecture}.${key}`];
    // A list, one for each layer, must not be taken for a number that is not stated.
    return text === undefined ? undefined : /^\d+$/.test(text) ? Number(text) : 0;
  };
  const heads = value("attention.head_count");
  const layers = value("block_count");
  const width = value("embedding_length");
  const kvHeads = value("attention.head_count_kv") ?? heads;
  const headLength = heads && width ? width / heads : undefined;
  const keyLength = value("attention.key_length") ?? headLength;
  const valueLength = value("attention.value_length") ?? headLength;
  return layers && kvHeads && keyLength && valueLength ? { layers, kvHeads, keyLength, valueLength } : undefined;
}

/** Bytes of one cell with keys and values of 16-bit floats, which is llama.cpp's default. */
export const kvBytesPerCell = ({ layers, kvHeads, keyLength, valueLength }: KvShape): number =>
  layers * kvHeads * (keyLength + valueLength) * 2;
