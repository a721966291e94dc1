/** The cells of a window in the rows of the run's memory map. */

import type { Overview, Place, Tiles } from "../page.ts";

/**
 * Cells of a window, with the places of the run. null if a place of the window has none in the run, as while a run grows.
 *
 * Regions may share their name; then their size and their order tell them apart.
 */
export function tilesInPlaces(window: Overview, places: readonly Place[]): Tiles | null {
  const numbers = placeNumbers(window.places, places);
  return numbers.includes(null) ? null : joined(window.tiles, numbers as number[]);
}

/** For each place of a window the place of the run that it belongs to. */
export function placeNumbers(window: readonly Place[], run: readonly Place[]): (number | null)[] {
  const byKey = new Map<string, number[]>();
  const enter = (key: string, number: number): void => {
    const numbers = byKey.get(key);
    numbers === undefined ? byKey.set(key, [number]) : numbers.push(number);
  };
  run.forEach((place, number) => keysOf(place).forEach((key) => enter(key, number)));
  const taken = new Map<string, number>();
  return window.map((place) => {
    const key = [...keysOf(place), ...wholesOf(place)].find((each) => byKey.has(each));
    const numbers = byKey.get(key ?? "");
    if (key === undefined || numbers === undefined) {
      return null;
    }
    const turn = taken.get(key) ?? 0;
    taken.set(key, turn + 1);
    return numbers[Math.min(turn, numbers.length - 1)];
  });
}

/** What tells a place from others, the most exact first. */
function keysOf({ region_type, layer, tensor, size_bytes }: Place): string[] {
  return [keyOf(region_type, layer, tensor, size_bytes), keyOf(region_type, layer, tensor)];
}

/** Places that stand for all tensors of a layer or type, where a run has too many to list. */
function wholesOf({ region_type, layer }: Place): string[] {
  return [keyOf(region_type, layer, null), keyOf(region_type, null, null)];
}

function keyOf(...parts: (string | number | null)[]): string {
  return JSON.stringify(parts);
}

/** Ascending by place, then bin; cells that fall together are added up. */
function joined(tiles: Tiles, places: number[]): Tiles {
  const sums = new Map<number, [number, number]>();
  tiles.place.forEach((place, at) => {
    const cell = places[place] * tiles.bins + tiles.bin[at];
    const [read, written] = sums.get(cell) ?? [0, 0];
    sums.set(cell, [read + tiles.read_bytes[at], written + tiles.written_bytes[at]]);
  });
  const cells = [...sums].sort(([left], [right]) => left - right);
  return {
    ...tiles,
    place: cells.map(([cell]) => Math.floor(cell / tiles.bins)),
    bin: cells.map(([cell]) => cell % tiles.bins),
    read_bytes: cells.map(([, [read]]) => read),
    written_bytes: cells.map(([, [, written]]) => written),
  };
}
