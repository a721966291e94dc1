import assert from "node:assert/strict";
import { test } from "node:test";

import { runPage } from "../../test/sample.ts";
import { bytesByType, CellIndex, totalOf } from "./cells.ts";

const { places, tiles, traffic } = runPage().overview;

test("the cells of a region type add up to its places, its traffic and its metrics", () => {
  const byType = bytesByType(tiles, places);
  const rows = runPage().metrics.rows;
  assert.equal(byType.size, 4);
  for (const [type, sum] of byType) {
    assert.deepEqual(sum, totalOf(places.filter(({ region_type }) => region_type === type)));
    const series = traffic.series.find(({ region_type }) => region_type === type);
    assert.equal(
      series?.read_bytes.reduce((all, value) => all + value, 0),
      sum.read_bytes,
    );
    assert.equal(rows.find(([name]) => name === type)?.[1], sum.read_bytes);
    assert.equal(rows.find(([name]) => name === type)?.[2], sum.written_bytes);
  }
});

test("the cells of a place are found by bin", () => {
  const index = new CellIndex(tiles, places.length);
  tiles.place.forEach((place, position) => {
    assert.deepEqual(index.at(place, tiles.bin[position]), index.cell(position));
  });
  assert.deepEqual(index.at(0, 0), { read_bytes: 0, written_bytes: 0 });
});

test("a place has all its cells and no other", () => {
  const index = new CellIndex(tiles, places.length);
  places.forEach((place, at) => {
    const { begin, end } = index.cellsOf(at, 0, tiles.bins);
    const cells = Array.from({ length: end - begin }, (_, offset) => index.cell(begin + offset));
    assert.deepEqual(totalOf(cells), { read_bytes: place.read_bytes, written_bytes: place.written_bytes });
  });
});
