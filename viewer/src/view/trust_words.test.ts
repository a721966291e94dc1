import assert from "node:assert/strict";
import { test } from "node:test";

import { trustWords } from "./trust_words.ts";

test("classes of validity and quality are said in words", () => {
  assert.equal(trustWords({ validity: "contaminated", quality: "PASS" }), "disturbed, trace whole");
  assert.equal(trustWords({ validity: "clean", quality: "FAIL" }), "undisturbed, trace incomplete");
  assert.equal(trustWords({ validity: null, quality: null }), null);
});
