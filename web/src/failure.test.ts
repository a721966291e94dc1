import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure, failureFrom } from "./failure.ts";

test("a failure keeps its stage, anything else gets the one at which it was thrown", () => {
  const failure = new Failure("model", "gone", "look");
  assert.equal(failureFrom(failure, "load"), failure);
  const other = failureFrom(new Error("odd"), "generate");
  assert.deepEqual([other.stage, other.message, other.hint], ["generate", "odd", undefined]);
  assert.equal(failureFrom("text", "load").message, "text");
});

test("full storage and exhausted memory are told as such wherever they show", () => {
  const full = failureFrom(new DOMException("no room", "QuotaExceededError"), "load");
  assert.equal(full.stage, "quota");
  assert.ok(full.hint);
  assert.equal(failureFrom(new Error("exceeds the quota"), "generate").stage, "quota");
  assert.match(failureFrom(new RangeError("Array buffer allocation failed"), "load").message, /^memory ran out/);
});
