import assert from "node:assert/strict";
import { test } from "node:test";

import { blended, heatScale, shade, tint } from "./heat.ts";
import type { Rgb } from "./colours.ts";

const WHITE: Rgb = [255, 255, 255];

test("nothing has no shade, the least value has some, the most has all", () => {
  const scale = heatScale([0, 10, 1000], true);
  assert.deepEqual(scale, { least: 10, most: 1000, isLog: true });
  assert.equal(shade(0, scale), 0);
  assert.ok(shade(10, scale) > 0.1);
  assert.equal(shade(1000, scale), 1);
  assert.ok(Math.abs(shade(100, scale) - (shade(10, scale) + 1) / 2) < 1e-12);
});

test("a scale of one value or none does not divide by zero", () => {
  assert.equal(shade(5, heatScale([5], true)), 1);
  assert.equal(shade(0, heatScale([], true)), 0);
});

test("either colour alone keeps its hue, both are darker on white", () => {
  const [read, written] = [tint(WHITE, [80, 110, 220], 1), tint(WHITE, [230, 150, 60], 1)];
  assert.deepEqual(blended(WHITE, read, WHITE), read);
  assert.deepEqual(blended(WHITE, read, written), [55, 5, 25]);
});
