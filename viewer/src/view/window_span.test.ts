import assert from "node:assert/strict";
import { test } from "node:test";

import { alignedSpan, covers, exactSpan, followed } from "./window_span.ts";

const BEGIN_NS = 40_376_000_000_123;
const SPANS = [
  { begin_s: 0, end_s: 4 },
  { begin_s: 1.25, end_s: 1.3 },
  { begin_s: 2, end_s: 2.000001 },
  { begin_s: 1e-9, end_s: 3599.999 },
];

test("what is asked for covers what is shown, and hardly more", () => {
  for (const shown of SPANS) {
    const span = alignedSpan(shown, BEGIN_NS);
    assert.ok(covers(span, shown, BEGIN_NS));
    const length_ns = (shown.end_s - shown.begin_s) * 1e9;
    assert.ok(span.end_ns - span.begin_ns <= length_ns * 2.5 + 2048, `${span.end_ns - span.begin_ns} ns for ${length_ns} ns`);
  }
});

test("the ends are multiples of a power of two of which a window has at most 16", () => {
  for (const shown of SPANS) {
    const { begin_ns, end_ns } = alignedSpan(shown, BEGIN_NS);
    const part = 2 ** Math.ceil(Math.log2((end_ns - begin_ns) / 16));
    assert.equal(begin_ns % part, 0);
    assert.equal(end_ns % part, 0);
    assert.equal(begin_ns % 1024, 0, "no bin is cut, however close the zoom is");
    assert.equal(end_ns % 1024, 0);
  }
});

test("a window that is moved a little asks for the same", () => {
  const [before, after] = [1.2001, 1.2002].map((begin_s) => alignedSpan({ begin_s, end_s: begin_s + 0.01 }, 0));
  assert.deepEqual(before, after);
});

test("accesses at both ends of what is shown are in it", () => {
  const { begin_ns, end_ns } = exactSpan({ begin_s: 0.5, end_s: 1 }, BEGIN_NS);
  assert.ok(begin_ns <= BEGIN_NS + 5e8 && end_ns > BEGIN_NS + 1e9);
});

test("a window follows the end of a run that grows, and stays where it is elsewhere", () => {
  const [before, now] = [
    { begin_s: 0, end_s: 10 },
    { begin_s: 0, end_s: 12 },
  ];
  assert.deepEqual(followed(before, before, now), now);
  assert.deepEqual(followed({ begin_s: 7, end_s: 10 }, before, now), { begin_s: 9, end_s: 12 });
  assert.deepEqual(followed({ begin_s: 2, end_s: 3 }, before, now), { begin_s: 2, end_s: 3 });
});
