/** Times that dwell cut into bins, in seconds since the beginning of the timeline. */

import type { TimeAxis } from "./page.ts";
import { length, type Span } from "./time_window.ts";

export interface Bins {
  first_s: number;
  length_s: number;
  count: number;
}

/** Bins `from` (inclusive) to `to` (exclusive). */
export interface BinRange {
  from: number;
  to: number;
}

export function binsOf(axis: TimeAxis, begin_ns: number): Bins {
  return { first_s: (axis.first_bin_ns - begin_ns) * 1e-9, length_s: axis.bin_ns * 1e-9, count: axis.bins };
}

export function binBegin(bins: Bins, bin: number): number {
  return bins.first_s + bin * bins.length_s;
}

/** The bin that a moment lies in; null outside of all. */
export function binAt(bins: Bins, at_s: number): number | null {
  const bin = Math.floor((at_s - bins.first_s) / bins.length_s);
  return bin >= 0 && bin < bins.count ? bin : null;
}

/** The bins of which any part is in a window. */
export function binsIn(bins: Bins, window: Span): BinRange {
  const clamp = (bin: number): number => Math.min(Math.max(bin, 0), bins.count);
  return {
    from: clamp(Math.floor((window.begin_s - bins.first_s) / bins.length_s)),
    to: clamp(Math.ceil((window.end_s - bins.first_s) / bins.length_s)),
  };
}

/**
 * Ranges of equally many bins that cover a window, of which about `most` fit into it: runs of other lengths get bars of nearly the
 * same time. They begin at multiples of their length, so that bars keep their heights while the window is moved.
 */
export function binGroups(bins: Bins, window: Span, most: number): BinRange[] {
  const visible = binsIn(bins, window);
  const wanted = length(window) / Math.max(1, most) / bins.length_s;
  // The length of a window that is moved changes in its last digit, and the bars must not.
  const size = Math.max(1, Math.ceil(wanted - 1e-6));
  const groups: BinRange[] = [];
  for (let from = visible.from - (visible.from % size); from < visible.to; from += size) {
    groups.push({ from, to: Math.min(from + size, bins.count) });
  }
  return groups;
}

export function sumOf(values: readonly number[], range: BinRange): number {
  let sum = 0;
  for (let bin = range.from; bin < range.to; bin += 1) {
    sum += values[bin];
  }
  return sum;
}
