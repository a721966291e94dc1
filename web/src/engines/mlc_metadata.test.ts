import assert from "node:assert/strict";
import { test } from "node:test";
import { budgetOf, metadataOf, pagedCells } from "./mlc_metadata.ts";
import { library, METADATA } from "../../test/mlc_model.mjs";

test("the metadata inside a library is found, braces in strings aside", () => {
  assert.deepEqual(metadataOf(library()), METADATA);
  const odd = { model_type: "}{", quantization: 'q"{' };
  assert.deepEqual(metadataOf(library({ ...METADATA, ...odd })), { ...METADATA, ...odd });
});

test("a library without metadata, or with metadata cut short, gives none", () => {
  assert.equal(metadataOf(new Uint8Array([0, 97, 115, 109])), undefined);
  assert.equal(metadataOf(library().subarray(0, 60)), undefined);
});

test("the budget is the sum of the parameters, the largest function, and the cache", () => {
  const budget = budgetOf(METADATA);
  assert.equal(budget.weightBytes, 4 * (800 + 200 + 64));
  assert.equal(budget.computeBytes, 5000);
  assert.equal(budget.kvBytesPerToken, 2 * 3 * 2 * 16 * 4);
  assert.equal(budgetOf({ ...METADATA, quantization: "q4f16_1" }).kvBytesPerToken, 2 * 3 * 2 * 16 * 2);
  assert.deepEqual(budgetOf({}), { weightBytes: 0, computeBytes: 0, elementType: "f16" });
});

test("a paged cache has whole pages and an empty one", () => {
  assert.equal(pagedCells(4096), 4112);
  assert.equal(pagedCells(17), 48);
});
