import assert from "node:assert/strict";
import { test } from "node:test";

import { bottomAxis, byteTicks, linear, logarithmic, powerTicks, timeTicks } from "./axes.ts";
import { duration } from "./format.ts";

const labels = (ticks: { label: string }[]): string[] => ticks.map(({ label }) => label.replaceAll("\u202f", " "));

test("scales end at the edges of the plot", () => {
  const scale = linear([0, 10], [100, 200]);
  assert.deepEqual([scale(-5), scale(5), scale(50)], [100, 150, 200]);
  const log = logarithmic([1, 100], [0, 10]);
  assert.deepEqual([log(0), log(10), log(1000)], [0, 5, 10]);
});

test("ticks of time share a unit and have enough decimals to differ", () => {
  assert.deepEqual(labels(timeTicks(0, 4, 4)), ["0 s", "1 s", "2 s", "3 s", "4 s"]);
  assert.deepEqual(labels(timeTicks(3.0012, 3.0016, 2)), ["3.0012 s", "3.0014 s", "3.0016 s"]);
  assert.deepEqual(labels(timeTicks(0, 0.004, 2)), ["0 ms", "2 ms", "4 ms"]);
});

test("ticks of bytes are round in their unit", () => {
  const ticks = byteTicks(100 * 1024 * 1024, 2);
  assert.deepEqual(labels(ticks), ["0 MiB", "50 MiB", "100 MiB"]);
  assert.equal(ticks[1].value, 50 * 1024 * 1024);
});

test("powers are thinned until they fit", () => {
  assert.deepEqual(labels(powerTicks([1e-6, 10], 10, 4, duration)).length, 4);
  assert.deepEqual(
    powerTicks([2, 8], 2, 9, String).map(({ value }) => value),
    [2, 4, 8],
  );
});

test("labels of an axis do not overlap, and each tick has its line", () => {
  const plot = { left: 0, top: 0, width: 300, height: 100 };
  // The last label is moved inside the picture, onto the one before it.
  const ticks = [0, 100, 230, 290].map((value) => ({ value, label: "3.0012 s" }));
  const marks = bottomAxis(plot, (x) => x, ticks);
  const shown = marks.filter(({ tag }) => tag === "text");
  assert.deepEqual(
    shown.map(({ attributes }) => attributes["x"]),
    [0, 100, 230],
  );
  assert.equal(marks.filter(({ tag }) => tag === "line").length, 4);
});

test("ticks of minutes are at round times", () => {
  assert.deepEqual(labels(timeTicks(0, 180, 4)), ["0:00 min", "1:00 min", "2:00 min", "3:00 min"]);
  assert.deepEqual(labels(timeTicks(0, 150, 5)), ["0:00 min", "0:30 min", "1:00 min", "1:30 min", "2:00 min", "2:30 min"]);
  assert.deepEqual(labels(timeTicks(0, 7200, 2)), ["0:00:00 h", "1:00:00 h", "2:00:00 h"]);
  assert.deepEqual(labels(timeTicks(170, 170.2, 2)), ["170.0 s", "170.1 s", "170.2 s"]);
});
