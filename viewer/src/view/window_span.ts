/** Which part of a run is asked for, and how a window moves while a run grows. */

import { length, type Span } from "../time_window.ts";
import type { NsSpan } from "./client.ts";

/** Parts that a window is asked for in: few enough that each holds several bins of the answer. */
const MOST_PARTS = 16;
/** Shortest bin of an overview. */
const LEAST_BIN_NS = 1024;

/**
 * The time to ask for: the window, widened to multiples of a power of two. Bins of overviews begin at multiples of their length,
 * which is a power of two as well, so no bin is cut; and a window that is moved a little asks for nothing new.
 */
export function alignedSpan(shown: Span, run_begin_ns: number): NsSpan {
  const [begin, end] = [shown.begin_s, shown.end_s].map((time_s) => run_begin_ns + time_s * 1e9);
  let part = Math.max(LEAST_BIN_NS, 2 ** Math.ceil(Math.log2((end - begin) / MOST_PARTS)));
  const cut = (): [number, number] => [Math.floor(begin / part), Math.floor(end / part) + 1];
  while (cut()[1] - cut()[0] > MOST_PARTS) {
    part *= 2;
  }
  const [first, last] = cut();
  return { begin_ns: first * part, end_ns: last * part };
}

/** Exactly what is shown, including an access at its last moment. */
export function exactSpan(shown: Span, run_begin_ns: number): NsSpan {
  return {
    begin_ns: Math.floor(run_begin_ns + shown.begin_s * 1e9),
    end_ns: Math.ceil(run_begin_ns + shown.end_s * 1e9) + 1,
  };
}

/** A span covers a window. */
export function covers(span: NsSpan, shown: Span, run_begin_ns: number): boolean {
  return span.begin_ns <= run_begin_ns + shown.begin_s * 1e9 && span.end_ns >= run_begin_ns + shown.end_s * 1e9;
}

/** What a window shows after the run has grown: all of it, or the end, or the same time as before. */
export function followed(shown: Span, before: Span, now: Span): Span {
  if (shown.begin_s === before.begin_s && shown.end_s === before.end_s) {
    return now;
  }
  return shown.end_s === before.end_s ? { begin_s: now.end_s - length(shown), end_s: now.end_s } : shown;
}
