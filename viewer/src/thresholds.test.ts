import assert from "node:assert/strict";
import { test } from "node:test";

import { REALISTIC, runPage } from "../test/sample.ts";
import { recordedNote, recordedThresholds, thresholdsOf, timesOfSteps } from "./thresholds.ts";

const tokens = { stride: 1, index: [], end_s: [], context_tokens: [], kv_bytes: [] };

test("a threshold counts steps at its own speed", () => {
  const thresholds = {
    high_retention_s: 10,
    medium_retention_s: 1,
    high_write_once: 0.8,
    medium_write_once: 0.5,
    at_tokens_per_s: 20,
  };
  assert.deepEqual(
    thresholdsOf({ thresholds, time_unit: null }).map(({ steps }) => steps),
    [20, 200],
  );
  assert.deepEqual(
    thresholdsOf({ thresholds: { ...thresholds, at_tokens_per_s: null }, time_unit: null }).map(({ steps }) => steps),
    [null, null],
  );
});

test("the time of so many steps is a range, and a prompt is one step", () => {
  assert.deepEqual(timesOfSteps({ ...tokens, begin_s: [0, 0, 0, 5, 6, 7, 9] }, 2), [2, 6]);
  assert.equal(timesOfSteps({ ...tokens, begin_s: [0, 1] }, 2), null);
  assert.deepEqual(timesOfSteps({ ...tokens, stride: 10, begin_s: [0, 10, 20] }, 20), [20, 20]);
});

test("a recording without a clock has no thresholds", () => {
  const run = { ...runPage(REALISTIC), time_unit: "instructions" };
  assert.deepEqual([thresholdsOf(run), recordedThresholds(run)], [[], []]);
  assert.match(recordedNote(run), /the recording has none/);
});

test("thresholds beyond the run are left out", () => {
  assert.equal(recordedThresholds(runPage(REALISTIC)).length, 2);
  assert.equal(recordedThresholds(runPage()).length, 0);
  const run = runPage();
  const inSeconds = { ...run, thresholds: { ...run.thresholds, at_tokens_per_s: null } };
  assert.deepEqual(
    recordedThresholds(inSeconds).map(({ least_s }) => least_s),
    [1, 10],
  );
});
