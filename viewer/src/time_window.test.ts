import assert from "node:assert/strict";
import { test } from "node:test";

import { length, panned, TimeWindow, within, zoomed } from "./time_window.ts";

const WHOLE = { begin_s: 0, end_s: 10 };

test("zooming keeps the moment under the pointer where it is", () => {
  const span = zoomed({ begin_s: 2, end_s: 6 }, WHOLE, 0.5, 3);
  assert.deepEqual(span, { begin_s: 2.5, end_s: 4.5 });
  assert.equal((3 - span.begin_s) / length(span), (3 - 2) / 4);
});

test("zooming out ends at the whole run", () => {
  assert.deepEqual(zoomed({ begin_s: 2, end_s: 6 }, WHOLE, 100, 3), WHOLE);
});

test("zooming in ends at a microsecond, however long the run is", () => {
  for (const end_s of [10, 36_000]) {
    const closest = zoomed({ begin_s: 4, end_s: 4.00001 }, { begin_s: 0, end_s }, 1e-9, 4);
    assert.ok(Math.abs(length(closest) - 1e-6) < 1e-12);
  }
});

test("a window is moved, not cut, at the ends", () => {
  assert.deepEqual(panned({ begin_s: 8, end_s: 10 }, WHOLE, 0.5), { begin_s: 8, end_s: 10 });
  assert.deepEqual(panned({ begin_s: 1, end_s: 3 }, WHOLE, -5), { begin_s: 0, end_s: 2 });
  assert.deepEqual(within({ begin_s: -4, end_s: -2 }, WHOLE), { begin_s: 0, end_s: 2 });
});

test("listeners hear of the window and of the moment, each of its own", () => {
  const window = new TimeWindow(WHOLE);
  const heard: string[] = [];
  window.onWindow(() => heard.push("window"));
  window.onCursor(() => heard.push("cursor"));
  window.zoom(0.5);
  window.point(3);
  assert.deepEqual(heard, ["window", "cursor"]);
  assert.equal(window.isWhole, false);
  window.reset();
  assert.equal(window.isWhole, true);
  assert.equal(window.cursor_s, 3);
});
