import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const SOURCES = join(fileURLToPath(new URL(".", import.meta.url)), "../src");

/** Ways to make markup or code of text, or to break the content security policy. */
const FORBIDDEN = [
  /innerHTML/,
  /outerHTML/,
  /insertAdjacentHTML/,
  /document\.write/,
  /DOMParser/,
  /\beval\(/,
  /new Function/,
  /setAttribute\("style"/,
  /XMLHttpRequest/,
  /\bimport\(/,
];

/** The only source that may ask a server; reports do not have it. */
const CLIENT = join("view", "client.ts");

test("no source parses markup, runs text, or uses the network", () => {
  for (const name of readdirSync(SOURCES, { recursive: true }) as string[]) {
    if (name.endsWith(".ts") && !name.endsWith(".test.ts")) {
      const source = readFileSync(join(SOURCES, name), "utf8");
      const isClient = name === CLIENT;
      [...FORBIDDEN, ...(isClient ? [] : [/\bfetch\(/])].forEach((pattern) => assert.doesNotMatch(source, pattern, name));
    }
  }
});
