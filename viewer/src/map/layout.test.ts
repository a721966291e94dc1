import assert from "node:assert/strict";
import { test } from "node:test";

import { runPage } from "../../test/sample.ts";
import { descended, groupAt, layOut, placesAt, rowAt, rowWeights } from "./layout.ts";

const { places } = runPage().overview;

test("a path leads to a region type, its layers, its tensors", () => {
  assert.equal(placesAt(places, []).length, places.length);
  assert.equal(placesAt(places, ["weight"]).length, 2 + 2 * 9);
  assert.equal(placesAt(places, ["weight", "1"]).length, 9);
  assert.equal(placesAt(places, ["weight", "none"]).length, 2);
});

test("levels without a choice are skipped", () => {
  const path = descended(places, [], "work_buffer");
  assert.deepEqual(path, ["work_buffer", "none", String(places.length - 1)]);
  assert.deepEqual(descended(places, [], "weight"), ["weight"]);
});

test("rows lie below each other, all of them, without overlap", () => {
  for (const path of [[], ["weight"], ["weight", "0"]]) {
    const { groups, height } = layOut(places, path);
    const rows = groups.flatMap((group) => group.rows);
    assert.deepEqual(
      rows.map(({ place }) => place),
      placesAt(places, path),
    );
    rows.slice(1).forEach((row, at) => assert.ok(row.y >= rows[at].y + rows[at].height - 1e-9));
    const last = rows[rows.length - 1];
    assert.ok(Math.abs(last.y + last.height - height) < 1e-9);
  }
});

test("every region type is high enough for its name", () => {
  assert.ok(layOut(places, []).groups.every(({ height }) => height >= 18));
});

test("large tensors are higher than small ones, but not by their size", () => {
  const [small, large] = rowWeights([2_304, 28_311_552]);
  assert.ok(large > small && large < 3 * small);
  assert.deepEqual(rowWeights([0, 0]), [1, 1]);
});

test("points of the map find their group and row", () => {
  const { groups } = layOut(places, []);
  const row = groups[2].rows[5];
  assert.equal(groupAt(groups, row.y + row.height / 2), 2);
  assert.equal(rowAt(groups, row.y + row.height / 2), row);
  assert.equal(groupAt(groups, groups[0].y + groups[0].height + 4), null);
  assert.equal(rowAt(groups, -1), null);
});
