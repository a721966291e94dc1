/** Required retention of each kind of memory against the thresholds of the classes: the verdict as a picture. */

import { bottomAxis, logarithmic, powerTicks, ticksFor, type Plot, type Scale } from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { byRegionType, regionColour } from "../colours.ts";
import { element } from "../dom.ts";
import { brief, duration } from "../format.ts";
import { fitted } from "../legend.ts";
import { line, mark, picture, text, titled, type Mark } from "../mark.ts";
import type { RegionRow, RunPage } from "../page.ts";
import { drawThresholds, speedWords, THRESHOLD_HEIGHT, thresholdsOf, type Threshold } from "../thresholds.ts";

/** Quantiles in seconds, at the speed at which the classes hold; null where the run ended before, with a lower bound. */
export interface RetentionRow {
  region_type: string;
  title: string;
  suitability: string;
  required_retention: string;
  p50_s: number | null;
  p50_low_s: number | null;
  p99_s: number | null;
  p99_low_s: number | null;
}

export interface RetentionScene {
  rows: RetentionRow[];
  thresholds: Threshold[];
  /** Tokens per second of the axis; null if its seconds are those of the recording. */
  at_tokens_per_s: number | null;
  /** Times below cannot be told apart: one step, or the resolution of the trace. */
  floor_s: number;
  domain_s: [number, number];
}

const ROW = 34;
const BOTTOM = 38;
const CLASS_WORDS: Record<string, string> = {
  high_mrm: "high",
  medium_mrm: "medium",
  low_mrm: "low",
  not_suitable: "not suitable",
};

/** Regions of which nothing is known have no row. */
export function retentionChart(run: RunPage): Chart<RetentionScene> {
  const scene = retentionScene(run);
  const chart = new Chart("required_retention", "Required retention against the classes", (width) => draw(scene, width));
  chart.section.append(element("p", { class: "note" }, note(scene)));
  return chart;
}

export function retentionScene(run: RunPage): RetentionScene {
  const speed = run.thresholds.at_tokens_per_s;
  const inSteps = speed !== null && run.metrics.columns.some(({ name }) => name === "needed_p99_s") ? speed : null;
  const all = [...run.regions].sort(byRegionType).map((region) => (inSteps === null ? inSeconds(region) : atSpeed(region, run)));
  const rows = all.filter((row) => longest(row) !== null);
  const thresholds = thresholdsOf(run);
  const times = [
    ...rows.flatMap((row) => [row.p50_s ?? row.p50_low_s ?? 0, longest(row) ?? 0]),
    ...thresholds.map(({ required_s }) => required_s),
  ];
  const seen = times.filter((time_s) => time_s > 0);
  const floor_s = inSteps === null ? Math.min(...seen) : 1 / inSteps;
  return {
    rows,
    thresholds,
    at_tokens_per_s: inSteps,
    floor_s,
    domain_s: [Math.min(floor_s, ...seen) / 2, Math.max(...seen) * 3],
  };
}

function inSeconds(region: RegionRow): RetentionRow {
  const { region_type, title, suitability, required_retention } = region;
  const times = {
    p50_s: region.retention_p50_s,
    p50_low_s: region.retention_p50_low_s,
    p99_s: region.retention_p99_s,
    p99_low_s: region.retention_p99_low_s,
  };
  return { region_type, title, suitability, required_retention, ...times };
}

/** At the speed of the classes, as the metrics have it. */
function atSpeed(region: RegionRow, { metrics }: RunPage): RetentionRow {
  const row = metrics.rows.find(([region_type]) => region_type === region.region_type);
  const time = (column: string): number | null => {
    const needed_s = row?.[metrics.columns.findIndex(({ name }) => name === column)];
    return typeof needed_s === "number" ? needed_s : null;
  };
  return {
    ...inSeconds(region),
    p50_s: time("needed_p50_s"),
    p50_low_s: time("needed_p50_low_s"),
    p99_s: time("needed_p99_s"),
    p99_low_s: time("needed_p99_low_s"),
  };
}

/** A lower bound of 0 says nothing. */
function longest(row: RetentionRow): number | null {
  return row.p99_s ?? (row.p99_low_s === 0 ? null : row.p99_low_s);
}

function draw(scene: RetentionScene, width: number): Drawing<RetentionScene> {
  const left = width < 560 ? 96 : 130;
  const plot: Plot = { left, top: THRESHOLD_HEIGHT, width: width - left - 84, height: scene.rows.length * ROW };
  const x = logarithmic(scene.domain_s, [plot.left, plot.left + plot.width]);
  const axis = powerTicks(scene.domain_s, 10, ticksFor(plot.width, 62), (time_s) => brief(duration(time_s)));
  const unit = scene.at_tokens_per_s === null ? "time in this recording" : `time at ${speedWords(scene.at_tokens_per_s)}`;
  return {
    scene,
    svg: picture(
      width,
      plot.top + plot.height + BOTTOM,
      ...bottomAxis(plot, x, axis),
      text(plot.left + plot.width, plot.top + plot.height + 32, unit, { "text-anchor": "end" }),
      text(width, plot.top - 8, "class", { "text-anchor": "end" }),
      ...drawThresholds(scene.thresholds.map(onAxis), plot, x),
      ...scene.rows.flatMap((row, at) => drawRow(row, scene, plot, at, x, width)),
    ),
    plot,
    gist: `Required retention: ${scene.rows.map((row) => `${row.title} ${row.required_retention}, class ${classWords(row)}`).join("; ")}.`,
    table: () => {
      const columns = ["region_type", "p50_s", "p50_low_s", "p99_s", "p99_low_s", "suitability"] as const;
      return { columns: [...columns], rows: scene.rows.map((row) => columns.map((column) => row[column])) };
    },
  };
}

function onAxis({ title, required_s }: Threshold): { title: string; least_s: number; most_s: number } {
  return { title: `${title} ≥ ${brief(duration(required_s))}`, least_s: required_s, most_s: required_s };
}

function drawRow(row: RetentionRow, scene: RetentionScene, plot: Plot, at: number, x: Scale, width: number): Mark[] {
  const y = plot.top + (at + 0.5) * ROW;
  const colour = regionColour(row.region_type);
  const label = titled(
    text(plot.left - 10, y + 4, fitted(row.title, plot.left - 10), { "text-anchor": "end", fill: "var(--ink)" }),
    row.title,
  );
  const suitability = text(width, y + 4, classWords(row), { "text-anchor": "end", fill: "var(--ink)", "font-weight": 600 });
  return [label, ...drawLife(row, scene.floor_s, plot, y, x, colour), suitability];
}

/** From the median to the 99th percentile; an arrow to the right where it is a lower bound, to the left where it is too short. */
function drawLife(row: RetentionRow, floor_s: number, plot: Plot, y: number, x: Scale, colour: string): Mark[] {
  const end = longest(row) ?? 0;
  const begin = row.p50_s ?? row.p50_low_s ?? end;
  if (end < floor_s) {
    return arrow(x(floor_s), plot.left + 8, y, colour);
  }
  const bar = line(x(Math.max(begin, floor_s)), y, x(end), y, { stroke: colour, "stroke-width": 2 });
  const median =
    row.p50_s === null || row.p50_s < floor_s ? [] : [mark("circle", { cx: x(row.p50_s), cy: y, r: 5, fill: colour })];
  const last = row.p99_s === null ? arrow(x(end), plot.left + plot.width - 6, y, colour) : [diamond(x(row.p99_s), y, colour)];
  return [bar, ...median, ...last];
}

function diamond(x: number, y: number, fill: string): Mark {
  return mark("path", { d: `M${x - 6} ${y}L${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}Z`, fill });
}

/** From a bound to where the value lies, somewhere beyond. */
function arrow(from: number, to: number, y: number, stroke: string): Mark[] {
  const back = Math.sign(from - to) * 6;
  return [
    line(from, y - 6, from, y + 6, { stroke, "stroke-width": 2 }),
    mark("path", {
      d: `M${from} ${y}H${to}M${to + back} ${y - 5}L${to} ${y}L${to + back} ${y + 5}`,
      fill: "none",
      stroke,
      "stroke-width": 2,
    }),
  ];
}

function classWords({ suitability }: RetentionRow): string {
  return CLASS_WORDS[suitability] ?? "not rated";
}

function note({ at_tokens_per_s }: RetentionScene): string {
  const marks =
    "Half of the bytes are needed for longer than the circle (p50), 1 % for longer than the diamond (p99). " +
    "An arrow to the right is a lower bound: the run ended while the data was still needed. ";
  return at_tokens_per_s === null
    ? `${marks}An arrow to the left is shorter than anything else here.`
    : `${marks}An arrow to the left is less than one step. Times are steps at ${speedWords(at_tokens_per_s)}, as the classes count them, whatever the speed of this run.`;
}
