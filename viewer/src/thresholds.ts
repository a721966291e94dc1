/**
 * Where the classes of suitability begin on axes of time.
 *
 * Classes count steps at a set speed: 10 s at 20 tokens/s are 200 steps, whatever time the recording took for them. A machine
 * that is disturbed takes different times for the same number of steps, so in seconds of the recording a threshold is a range.
 */

import { extent } from "d3-array";

import type { Plot, Scale } from "./axes.ts";
import { brief, count, duration, significant } from "./format.ts";
import { textWidth } from "./legend.ts";
import { line, rect, text, type Mark } from "./mark.ts";
import type { RunPage, Tokens } from "./page.ts";

export interface Threshold {
  title: string;
  /** Required retention from which the class begins, at its own speed. */
  required_s: number;
  /** The same in steps; null if the class counts seconds of the recording. */
  steps: number | null;
}

/** The times that the recording took for the steps of a threshold: least and most. */
export interface RecordedThreshold extends Threshold {
  least_s: number;
  most_s: number;
}

/** Room for the names of the lines above a plot. */
export const THRESHOLD_HEIGHT = 34;
const NAME_ROW = 15;

/** None of a recording without a clock: its memory is not rated. */
export function thresholdsOf({ thresholds, time_unit }: Pick<RunPage, "thresholds" | "time_unit">): Threshold[] {
  if (time_unit !== null) {
    return [];
  }
  const { medium_retention_s, high_retention_s, at_tokens_per_s } = thresholds;
  const threshold = (title: string, required_s: number): Threshold => ({
    title,
    required_s,
    steps: at_tokens_per_s === null ? null : Math.ceil(required_s * at_tokens_per_s),
  });
  return [threshold("medium: p50", medium_retention_s), threshold("high: p99", high_retention_s)];
}

/** Those that the recording was long enough for. */
export function recordedThresholds(run: RunPage): RecordedThreshold[] {
  return thresholdsOf(run).flatMap((threshold) => {
    const range =
      threshold.steps === null
        ? ([threshold.required_s, threshold.required_s] as const)
        : timesOfSteps(run.timeline.tokens, threshold.steps);
    return range === null ? [] : [{ ...threshold, least_s: range[0], most_s: range[1] }];
  });
}

/** The least and the most time between a step and the one so many later; null if there are not so many. */
export function timesOfSteps({ begin_s, stride }: Tokens, steps: number): readonly [number, number] | null {
  // Tokens of a prompt, and those of sequences that are computed together, share one step.
  const begins = begin_s.filter((begin, at) => begin !== begin_s[at - 1]);
  const entries = Math.ceil(steps / stride);
  const times = begins.slice(entries).map((begin, at) => begin - begins[at]);
  const [least_s, most_s] = extent(times);
  return least_s === undefined ? null : [least_s, most_s];
}

/** Lines, or bands between two times, named above the plot in a row each; the least first. */
export function drawThresholds(
  thresholds: readonly { title: string; least_s: number; most_s: number }[],
  plot: Plot,
  x: Scale,
): Mark[] {
  return thresholds.flatMap(({ title, least_s, most_s }, row) => {
    const [from, to] = [x(least_s), x(most_s)];
    // The name of the later one is above, so that no line goes through a name.
    const name = plot.top - 6 - row * NAME_ROW;
    const edge = (at: number): Mark =>
      line(at, name - 8, at, plot.top + plot.height, { stroke: "var(--ink)", "stroke-dasharray": "4 3" });
    const isAtLeft = from - textWidth(title) < 0;
    return [
      rect(from, plot.top, to - from, plot.height, { fill: "var(--ink)", "fill-opacity": 0.05 }),
      edge(from),
      ...(to - from < 2 ? [] : [edge(to)]),
      text(from + (isAtLeft ? 4 : -4), name, title, { "text-anchor": isAtLeft ? "start" : "end" }),
    ];
  });
}

/** Explains the ranges in seconds of the recording. */
export function recordedNote(run: RunPage): string {
  if (run.time_unit !== null) {
    return "No class is drawn: they ask for times, and the recording has none.";
  }
  const { at_tokens_per_s } = run.thresholds;
  const known = recordedThresholds(run);
  if (at_tokens_per_s === null) {
    return `Dashed lines: the medium class needs a median (p50) of ${need(run, 0)}, the high class a 99th percentile (p99) of ${need(run, 1)}.`;
  }
  const words = thresholdsOf(run).map((threshold) => {
    const found = known.find(({ title }) => title === threshold.title);
    const took = found ? `which took ${duration(found.least_s)} to ${duration(found.most_s)} here` : "more than this run has";
    return `${threshold.title.replace(":", " class:")} ≥ ${count(threshold.steps)} steps, ${took}`;
  });
  return `Shaded: where the classes begin. They count steps at ${speedWords(at_tokens_per_s)}, whatever the speed of this run: ${words.join("; ")}.`;
}

export function speedWords(tokens_per_s: number): string {
  return `${brief(significant(tokens_per_s))} tokens/s`;
}

function need(run: RunPage, place: number): string {
  return brief(duration(thresholdsOf(run)[place].required_s));
}
