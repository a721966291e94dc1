import assert from "node:assert/strict";
import { test } from "node:test";
import { TextStream } from "./text_stream.ts";

/** One token for each byte. */
const decode = (ids: bigint[]): string => new TextDecoder().decode(Uint8Array.from(ids, Number));

test("each token gives what it adds, and a character comes with its last byte", () => {
  const stream = new TextStream(decode);
  const bytes = [...new TextEncoder().encode("a\nbé€")];
  assert.deepEqual(
    bytes.map((byte) => stream.add(BigInt(byte))),
    ["a", "\n", "b", "", "é", "", "", "€"],
  );
});
