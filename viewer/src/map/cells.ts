/** The cells of the memory map: bytes by place and bin. */

import { bisectLeft } from "d3-array";

import type { Place, Tiles } from "../page.ts";

export interface Bytes {
  read_bytes: number;
  written_bytes: number;
}

/** Finds cells. They ascend by place, then bin, so each place has one stretch of the columns. */
export class CellIndex {
  readonly #first: number[];

  constructor(
    readonly tiles: Tiles,
    places: number,
  ) {
    this.#first = Array.from({ length: places + 1 }, (_, place) => bisectLeft(tiles.place, place));
  }

  /** Positions in the columns of the cells of a place, within bins `from` to `to` (exclusive). */
  cellsOf(place: number, from: number, to: number): { begin: number; end: number } {
    const [first, last] = [this.#first[place], this.#first[place + 1]];
    return { begin: bisectLeft(this.tiles.bin, from, first, last), end: bisectLeft(this.tiles.bin, to, first, last) };
  }

  at(place: number, bin: number): Bytes {
    const { begin, end } = this.cellsOf(place, bin, bin + 1);
    return begin === end ? { read_bytes: 0, written_bytes: 0 } : this.cell(begin);
  }

  cell(position: number): Bytes {
    return { read_bytes: this.tiles.read_bytes[position], written_bytes: this.tiles.written_bytes[position] };
  }
}

/** Bytes of the cells of each region type. */
export function bytesByType(tiles: Tiles, places: readonly Place[]): Map<string, Bytes> {
  const sums = new Map<string, Bytes>();
  tiles.place.forEach((place, position) => {
    const { region_type } = places[place];
    const sum = sums.get(region_type) ?? { read_bytes: 0, written_bytes: 0 };
    sum.read_bytes += tiles.read_bytes[position];
    sum.written_bytes += tiles.written_bytes[position];
    sums.set(region_type, sum);
  });
  return sums;
}

export function totalOf(places: readonly Bytes[]): Bytes {
  return {
    read_bytes: places.reduce((sum, place) => sum + place.read_bytes, 0),
    written_bytes: places.reduce((sum, place) => sum + place.written_bytes, 0),
  };
}
