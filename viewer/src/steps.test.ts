import assert from "node:assert/strict";
import { test } from "node:test";

import { stepArea, stepLine } from "./steps.ts";

test("neighbours are joined, gaps are not", () => {
  assert.equal(stepLine([0, 1, 2, 9], [1, 2, 3, 10], [5, 6, null, 7]), "M0,5H1L1,6H2M9,7H10");
});

test("an area goes there and back", () => {
  assert.equal(stepArea([0, 1], [1, 2], [9, 9], [5, 6]), "M0,5H1L1,6H2L2,9H1L1,9H0Z");
  assert.equal(stepArea([], [], [], []), "");
});
