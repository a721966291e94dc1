/** Sizes of texel blocks, as the WebGPU specification's table of formats has them. */

export interface Block {
  bytes: number;
  width: number;
  height: number;
}

const CHANNELS: Record<string, number> = { r: 1, rg: 2, rgba: 4, bgra: 4 };
/** Formats whose size their name does not spell. Depth without a size in its name may be stored in 32 bits. */
const NAMED: Record<string, number> = {
  rgb9e5ufloat: 4,
  rgb10a2uint: 4,
  rgb10a2unorm: 4,
  rg11b10ufloat: 4,
  stencil8: 1,
  depth16unorm: 2,
  depth24plus: 4,
  "depth24plus-stencil8": 4,
  depth32float: 4,
  "depth32float-stencil8": 5,
};

export function formatBytesPerBlock(format: string): Block {
  const named = NAMED[format];
  if (named !== undefined) {
    return { bytes: named, width: 1, height: 1 };
  }
  const [, channels, bits] = /^(r|rg|rgba|bgra)(8|16|32)/.exec(format) ?? [];
  if (channels !== undefined && bits !== undefined) {
    return { bytes: (CHANNELS[channels] ?? 4) * (Number(bits) / 8), width: 1, height: 1 };
  }
  return compressedBlock(format);
}

function compressedBlock(format: string): Block {
  const [, width, height] = /^astc-(\d+)x(\d+)/.exec(format) ?? [];
  if (width !== undefined && height !== undefined) {
    return { bytes: 16, width: Number(width), height: Number(height) };
  }
  const isSmall = /^(bc1|bc4|etc2-rgb8|eac-r11)/.test(format);
  return { bytes: isSmall ? 8 : 16, width: 4, height: 4 };
}
