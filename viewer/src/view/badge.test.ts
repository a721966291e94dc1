import assert from "node:assert/strict";
import { test } from "node:test";

import { ageWords } from "./badge.ts";

test("ages are told in seconds, then in minutes", () => {
  assert.deepEqual([0, 1.9, 2.5, 119, 121, 7200].map(ageWords), [
    "just now",
    "just now",
    "2 s ago",
    "119 s ago",
    "2 min ago",
    "120 min ago",
  ]);
});
