/** What the library of an MLC model says of its memory, before anything runs: JSON that the compiler put into the module. */

export interface MlcMetadata {
  model_type?: string;
  quantization?: string;
  context_window_size?: number;
  prefill_chunk_size?: number;
  params?: { name: string; shape: (number | string)[]; dtype: string }[];
  memory_usage?: Record<string, number>;
  kv_cache?: { num_hidden_layers: number; num_attention_heads: number; num_key_value_heads: number; head_dim: number };
}

/** Bytes that a model is going to take on the GPU. */
export interface Budget {
  weightBytes: number;
  /** Temporary buffers of the function that needs most. */
  computeBytes: number;
  kvBytesPerToken?: number;
  layers?: number;
  elementType: "f16" | "f32";
}

const START = '{"model_type"';
const ELEMENT_BYTES: Record<string, number> = {
  float32: 4,
  float16: 2,
  bfloat16: 2,
  uint32: 4,
  int32: 4,
  uint16: 2,
  int8: 1,
  uint8: 1,
};

/** The metadata of a library, or undefined if it has none that can be read. */
export function metadataOf(library: Uint8Array): MlcMetadata | undefined {
  const text = new TextDecoder("latin1").decode(library);
  const begin = text.indexOf(START);
  const end = begin < 0 ? -1 : endOfObject(text, begin);
  if (end < 0) {
    return undefined;
  }
  try {
    return JSON.parse(text.slice(begin, end)) as MlcMetadata;
  } catch {
    return undefined;
  }
}

export function budgetOf(metadata: MlcMetadata): Budget {
  // Quantizations are named by their weights and by what they compute in: q4f16_1, q4f32_1, q0f32.
  const elementType = /f32/.test(metadata.quantization ?? "") ? "f32" : "f16";
  const cache = metadata.kv_cache;
  return {
    weightBytes: (metadata.params ?? []).reduce(
      (sum, { shape, dtype }) => sum + elements(shape) * (ELEMENT_BYTES[dtype] ?? 4),
      0,
    ),
    computeBytes: Math.max(0, ...Object.values(metadata.memory_usage ?? {})),
    elementType,
    ...(cache && {
      layers: cache.num_hidden_layers,
      kvBytesPerToken: 2 * cache.num_hidden_layers * cache.num_key_value_heads * cache.head_dim * (elementType === "f16" ? 2 : 4),
    }),
  };
}

const PAGE_TOKENS = 16;

/** Cells of a cache for one sequence: whole pages, and one page that stays empty. */
export const pagedCells = (contextLength: number): number => (Math.ceil(contextLength / PAGE_TOKENS) + 1) * PAGE_TOKENS;

/** Sizes that are only known when the model runs have names; no parameter of a compiled model has one. */
const elements = (shape: (number | string)[]): number => shape.reduce<number>((product, size) => product * Number(size), 1);

/** The index after the brace that closes the object, braces in strings aside. */
function endOfObject(text: string, begin: number): number {
  let depth = 0;
  let isString = false;
  for (let at = begin; at < text.length; at++) {
    const character = text[at];
    if (isString) {
      at += character === "\\" ? 1 : 0;
      isString = character !== '"';
    } else if (character === '"') {
      isString = true;
    } else if (character === "{") {
      depth++;
    } else if (character === "}" && --depth === 0) {
      return at + 1;
    }
  }
  return -1;
}
