import assert from "node:assert/strict";
import { test } from "node:test";

import { binAt, binBegin, binGroups, binsIn, binsOf, sumOf } from "./bins.ts";

const BINS = binsOf({ first_bin_ns: 1_000_000_000, bin_ns: 500_000_000, bins: 10 }, 1_200_000_000);

test("bins are in seconds of the timeline and may begin before it", () => {
  assert.ok(Math.abs(BINS.first_s + 0.2) < 1e-12);
  assert.ok(Math.abs(binBegin(BINS, 2) - 0.8) < 1e-12);
  assert.equal(binAt(BINS, 0), 0);
  assert.equal(binAt(BINS, 4.79), 9);
  assert.equal(binAt(BINS, 4.81), null);
  assert.equal(binAt(BINS, -0.3), null);
});

test("a window shows every bin that it touches", () => {
  assert.deepEqual(binsIn(BINS, { begin_s: 0.4, end_s: 1.4 }), { from: 1, to: 4 });
  assert.deepEqual(binsIn(BINS, { begin_s: -9, end_s: 99 }), { from: 0, to: 10 });
});

test("groups cover every bin of the window once", () => {
  const groups = binGroups(BINS, { begin_s: -0.2, end_s: 4.8 }, 4);
  assert.deepEqual(groups, [
    { from: 0, to: 3 },
    { from: 3, to: 6 },
    { from: 6, to: 9 },
    { from: 9, to: 10 },
  ]);
  const values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  assert.equal(
    groups.reduce((sum, group) => sum + sumOf(values, group), 0),
    55,
  );
});

test("a window that is longer than the bins has no finer groups", () => {
  assert.deepEqual(
    binGroups(BINS, { begin_s: -1, end_s: 9 }, 4).map(({ from }) => from),
    [0, 5],
  );
});

test("groups keep their edges while the window moves", () => {
  const edges = (begin_s: number): number[] => binGroups(BINS, { begin_s, end_s: begin_s + 3 }, 3).map(({ from }) => from);
  assert.ok(edges(0.5).every((edge) => edge % 2 === 0));
  assert.ok(edges(1.1).every((edge) => edge % 2 === 0));
});
