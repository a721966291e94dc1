import assert from "node:assert/strict";
import { test } from "node:test";

import { runPage, sampleWindow, SMALL } from "../../test/sample.ts";
import { bytesByType, CellIndex } from "../map/cells.ts";
import type { Place } from "../page.ts";
import { placeNumbers, tilesInPlaces } from "./refined_tiles.ts";

const run = runPage(SMALL);
const { places } = run.overview;
const begin_ns = run.timeline.begin_ns;
const window = sampleWindow(SMALL, begin_ns + 0.4e9, begin_ns + 0.55e9);

function place(region_type: string, layer: number | null, tensor: string | null, size_bytes = 1): Place {
  return { region_type, layer, tensor, regions: 1, size_bytes, read_bytes: 0, written_bytes: 0, rows: 0 };
}

test("places of a window are found in the run", () => {
  const numbers = placeNumbers(window.places, places);
  numbers.forEach((number, at) => {
    const { region_type, layer, tensor } = places[number ?? -1];
    assert.deepEqual({ region_type, layer, tensor }, { region_type, layer, tensor, ...pick(window.places[at]) });
  });
});

function pick({ region_type, layer, tensor }: Place): Partial<Place> {
  return { region_type, layer, tensor };
}

test("no byte is lost or moved to another region type", () => {
  const tiles = tilesInPlaces(window, places);
  assert.ok(tiles);
  assert.deepEqual(bytesByType(tiles, places), bytesByType(window.tiles, window.places));
  assert.ok(tiles.bin_ns < run.overview.tiles.bin_ns);
  const index = new CellIndex(tiles, places.length);
  tiles.place.forEach((number, at) => assert.deepEqual(index.at(number, tiles.bin[at]), index.cell(at)));
});

test("regions of one name are told apart by size, then by order", () => {
  const same = [place("activation", 0, "x", 8), place("activation", 0, "x", 16), place("activation", 0, "x", 16)];
  assert.deepEqual(placeNumbers([same[1]], same), [1]);
  assert.deepEqual(placeNumbers(same.slice(1), same), [1, 2]);
  assert.deepEqual(placeNumbers([place("activation", 0, "x", 99)], same), [0]);
});

test("tensors that the run does not list go to their layer or type, and are added up", () => {
  const grouped = [place("activation", 0, null), place("activation", null, null), place("weight", 0, "w")];
  const listed = [place("activation", 0, "x"), place("activation", 0, "y"), place("activation", 5, "z")];
  assert.deepEqual(placeNumbers(listed, grouped), [0, 0, 1]);
  const tiles = { ...window.tiles, place: [0, 1, 2], bin: [3, 3, 3], read_bytes: [1, 2, 4], written_bytes: [10, 20, 40] };
  const joined = tilesInPlaces({ ...window, places: listed, tiles }, grouped);
  assert.deepEqual(
    [joined?.place, joined?.bin, joined?.read_bytes, joined?.written_bytes],
    [
      [0, 1],
      [3, 3],
      [3, 4],
      [30, 40],
    ],
  );
});

test("a place that the run does not have makes the window unusable", () => {
  assert.equal(tilesInPlaces({ ...window, places: [...window.places, place("runtime", null, "new")] }, places), null);
});
