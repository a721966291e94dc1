import assert from "node:assert/strict";
import { test } from "node:test";
import { formatBytesPerBlock } from "./texture_formats.ts";

test("bytes of texel blocks as the specification has them", () => {
  const sizes: [string, number, number][] = [
    ["r8unorm", 1, 1],
    ["rg16float", 4, 1],
    ["rgba8unorm-srgb", 4, 1],
    ["bgra8unorm", 4, 1],
    ["rgba32float", 16, 1],
    ["rgb10a2unorm", 4, 1],
    ["depth16unorm", 2, 1],
    ["bc1-rgba-unorm", 8, 4],
    ["bc7-rgba-unorm", 16, 4],
    ["etc2-rgb8unorm", 8, 4],
    ["astc-8x5-unorm", 16, 8],
  ];
  for (const [format, bytes, width] of sizes) {
    const block = formatBytesPerBlock(format);
    assert.deepEqual([block.bytes, block.width], [bytes, width], format);
  }
  assert.equal(formatBytesPerBlock("astc-8x5-unorm").height, 5);
});
