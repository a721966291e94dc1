/** Where the rows of the memory map lie: by region type, layer and tensor, as dwell orders the places. */

import type { Place } from "../page.ts";

/** What was chosen so far: a region type, then a layer of it, then a place. */
export type MapPath = readonly string[];

export const DEPTHS = ["region type", "layer", "tensor"] as const;

export interface MapRow {
  /** Index in `places`. */
  place: number;
  y: number;
  height: number;
}

/** Rows that are chosen together: those of a region type, a layer or a tensor. */
export interface MapGroup {
  key: string;
  rows: MapRow[];
  y: number;
  height: number;
}

const NO_LAYER = "none";
/** Pixels between two region types, and the least height of one, so that its name fits. */
const TYPE_GAP = 8;
const LEAST_TYPE = 18;
const ROW_PIXELS = 1.6;
const [LEAST_HEIGHT, MOST_HEIGHT] = [280, 660];

/** What tells a place from others at a depth. */
function keyAt(depth: number, place: Place, index: number): string {
  return [place.region_type, place.layer === null ? NO_LAYER : String(place.layer), String(index)][depth];
}

/** The places that a path leads to. */
export function placesAt(places: readonly Place[], path: MapPath): number[] {
  return places.flatMap((place, index) => (path.every((key, depth) => keyAt(depth, place, index) === key) ? [index] : []));
}

/** One step further down; on through levels that leave no choice, such as the only layer. */
export function descended(places: readonly Place[], path: MapPath, key: string): MapPath {
  const next = [...path, key];
  const keys = new Set(placesAt(places, next).map((index) => keyAt(next.length, places[index], index)));
  const [only] = keys;
  return keys.size === 1 && next.length < DEPTHS.length ? descended(places, next, only) : next;
}

/**
 * Half of a row's height is the same for all and half grows with the logarithm of its size, so that a norm of 2 KiB can be seen
 * beside an embedding of 30 MiB.
 */
export function rowWeights(sizes: readonly number[]): number[] {
  const logs = sizes.map((size) => Math.log2(1 + size));
  const mean = logs.reduce((sum, log) => sum + log, 0) / Math.max(1, logs.length);
  return logs.map((log) => 0.5 + (mean === 0 ? 0.5 : (0.5 * log) / mean));
}

/** Rows and groups of a path, one below the other. */
export function layOut(places: readonly Place[], path: MapPath): { groups: MapGroup[]; height: number } {
  const shown = placesAt(places, path);
  const weights = rowWeights(shown.map((index) => places[index].size_bytes));
  const whole = Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, shown.length * ROW_PIXELS));
  const perWeight = whole / weights.reduce((sum, weight) => sum + weight, 0);
  const depth = Math.min(path.length, DEPTHS.length - 1);
  const rows = shown.map((place, at) => ({ place, y: 0, height: weights[at] * perWeight }));
  const groups: MapGroup[] = [];
  for (const row of rows) {
    const key = keyAt(depth, places[row.place], row.place);
    if (groups.at(-1)?.key !== key) {
      groups.push({ key, rows: [], y: 0, height: 0 });
    }
    groups[groups.length - 1].rows.push(row);
  }
  if (depth === 0) {
    balance(groups, whole);
  }
  return { groups, height: stack(groups, depth === 0 ? TYPE_GAP : 0) };
}

/** Gives region types height by the root of their rows, so that hundreds of activations leave room for weights and KV cache. */
function balance(groups: MapGroup[], height: number): void {
  const natural = groups.map(({ rows }) => rows.reduce((sum, row) => sum + row.height, 0));
  const perRoot = height / natural.reduce((sum, size) => sum + Math.sqrt(size), 0);
  groups.forEach(({ rows }, at) => {
    const stretch = Math.max(LEAST_TYPE, Math.sqrt(natural[at]) * perRoot) / natural[at];
    rows.forEach((row) => (row.height *= stretch));
  });
}

/** Puts groups below each other and returns the height of all. */
function stack(groups: MapGroup[], gap: number): number {
  let y = 0;
  for (const group of groups) {
    group.y = y;
    for (const row of group.rows) {
      row.y = y;
      y += row.height;
    }
    group.height = y - group.y;
    y += gap;
  }
  return y - gap;
}

export function groupAt(groups: readonly MapGroup[], y: number): number | null {
  const found = groups.findIndex((group) => y >= group.y && y < group.y + group.height);
  return found < 0 ? null : found;
}

export function rowAt(groups: readonly MapGroup[], y: number): MapRow | null {
  const group = groupAt(groups, y);
  return group === null ? null : (groups[group].rows.find((row) => y < row.y + row.height) ?? null);
}
