import assert from "node:assert/strict";
import { test } from "node:test";

import { HOSTILE } from "../test/sample.ts";
import { mark, picture, text, titled, toFile } from "./mark.ts";

const black = (): string => "rgb(0 0 0)";

test("names cannot leave their text", () => {
  const file = toFile(picture(10, 10, titled(text(0, 0, HOSTILE), HOSTILE)), black);
  assert.equal(file.includes("<img"), false);
  assert.equal(file.includes("</script>"), false);
  assert.ok(file.includes("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
});

test("names cannot leave their attribute", () => {
  const file = toFile(mark("g", { id: '"><script>' }), black);
  assert.ok(file.includes('id="&quot;&gt;&lt;script&gt;"'));
});

test("characters that XML cannot hold are replaced", () => {
  const file = toFile(picture(10, 10, text(0, 0, "a\u0000b\ud800c")), black);
  assert.ok(file.includes(">a\ufffdb\ufffdc<"));
});

test("variables become colours", () => {
  const file = toFile(mark("rect", { fill: "var(--weight)" }), (name) => (name === "--weight" ? "rgb(0 114 178)" : "?"));
  assert.ok(file.includes('fill="rgb(0 114 178)"'));
});
