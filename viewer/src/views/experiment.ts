/** Means and intervals of an experiment: one small plot for each metric. */

import {
  bottomAxis,
  leftAxis,
  linear,
  logarithmic,
  numberTicks,
  byteTicks,
  ticksFor,
  timeTicks,
  verticalTicks,
  type Plot,
  type Scale,
  type Tick,
} from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { seriesStyle } from "../colours.ts";
import type { Cell, Table } from "../csv.ts";
import { element, section } from "../dom.ts";
import { counted, inUnit, SCALED_UNITS, significant } from "../format.ts";
import { fitted, legend } from "../legend.ts";
import { line, mark, picture, text, titled, type Mark } from "../mark.ts";
import type { Experiment, ExperimentPlot, ExperimentPoint } from "../page.ts";
import type { AddChart } from "../view.ts";
import { trustList, trustWords } from "./trust.ts";

/** A plot with the places of its points on the horizontal axis. */
export interface ExperimentScene extends ExperimentPlot {
  /** Values of x in the order of the axis. */
  x_values: (number | string)[];
}

const HEIGHT = 200;
const LEFT = 70;
const BOTTOM = 40;
/** Times that the greatest x may be of the least before the axis becomes logarithmic: context lengths double. */
const LINEAR_RATIO = 8;
/** Length of the arrow of a lower bound. */
const ARROW = 16;
/** Lines of several series at the same x are moved apart by so many pixels, so that their intervals can be told apart. */
const DODGE = 5;

export function experimentSections(experiment: Experiment, add: AddChart): HTMLElement[] {
  const plots = experiment.plots.map((plot) => element("div", { class: "plot" }, add(experimentChart(plot).withHeading())));
  const excluded = experiment.excluded.map(({ run_id, reason }) => element("li", {}, element("code", {}, run_id), ` ${reason}`));
  const results = section(
    "plots",
    "Results",
    "Large dots are means with 95 % intervals; small dots are single runs. All vertical axes begin at 0." +
      (experiment.plots.some(hasBounds) ? ` ${BOUND_NOTE}` : ""),
    element("div", { class: "plots" }, ...plots),
    ...unchanged(experiment.unchanged),
  );
  return [
    section(
      "experiment",
      "Experiment",
      null,
      element("p", { class: "headline" }, experiment.headline),
      ...experiment.answer.map((sentence) => element("p", { class: "answer" }, sentence)),
      experiment.description === "" ? null : element("p", {}, experiment.description),
      experiment.axes.length === 0
        ? null
        : element("ul", { class: "words" }, ...experiment.axes.map((axis) => element("li", {}, axis))),
      element("h3", {}, "How far to trust this", element("span", { class: "tally" }, trustWords(experiment.trust))),
      trustList(experiment.trust),
    ),
    ...(plots.length === 0 ? [] : [results]),
    section(
      "excluded",
      "Runs left out",
      `${counted(experiment.runs_included, "run")} included, ${counted(experiment.excluded.length, "run")} left out.`,
      excluded.length === 0 ? null : element("ul", { class: "words" }, ...excluded),
    ),
  ];
}

const BOUND_NOTE =
  "A hollow dot with an arrow is a lower bound: runs ended before the value was reached, so the dot is as high as the runs are long. No line joins bounds, because they do not show how the value changes.";

function hasBounds({ lines }: ExperimentPlot): boolean {
  return lines.some(({ points }) => points.some(({ is_bound }) => is_bound));
}

/** A plot of what is the same everywhere would be a level line. */
function unchanged(lines: string[]): HTMLElement[] {
  if (lines.length === 0) {
    return [];
  }
  const items = lines.map((line) => element("li", {}, line));
  return [element("h3", {}, "The same in every configuration"), element("ul", { class: "words" }, ...items)];
}

function experimentChart(plot: ExperimentPlot): Chart<ExperimentScene> {
  const scene = { ...plot, x_values: xValues(plot) };
  return new Chart(`plot:${plot.metric}`, titleOf(plot), (width) => draw(scene, width));
}

/** With the unit, unless each label of the axis has it. */
function titleOf({ title, unit }: ExperimentPlot): string {
  return unit === "" || SCALED_UNITS.includes(unit) ? title : `${title}, ${unit}`;
}

/** Numbers ascend, names stay in the order in which they come. */
export function xValues(plot: ExperimentPlot): (number | string)[] {
  const values = [...new Set(plot.lines.flatMap(({ points }) => points.map(({ x }) => x)))];
  return plot.x_is_number ? values.sort((left, right) => Number(left) - Number(right)) : values;
}

function draw(scene: ExperimentScene, width: number): Drawing<ExperimentScene> {
  const styles = scene.lines.map((_, at) => seriesStyle(at));
  const entries = scene.lines.length < 2 ? [] : scene.lines.map(({ title }, at) => ({ title, style: styles[at], isLine: true }));
  const names = legend(entries, LEFT, 0, width - LEFT);
  const plot: Plot = { left: LEFT, top: names.height + 8, width: width - LEFT - 12, height: HEIGHT };
  const x = xScale(scene, plot);
  const most = greatest(scene);
  const y = linear([0, most || 1], [plot.top + HEIGHT, plot.top]);
  return {
    scene,
    svg: picture(
      width,
      plot.top + HEIGHT + BOTTOM,
      ...names.marks,
      ...bottomAxis(plot, (place) => x(place), xTicks(scene, plot)),
      ...leftAxis(plot, y, yTicks(scene.unit, most, plot)),
      text(plot.left + plot.width, plot.top + HEIGHT + 34, scene.x_title.replaceAll("_", " "), { "text-anchor": "end" }),
      ...scene.lines.flatMap(({ title, points }, at) => {
        const shift = (at - (scene.lines.length - 1) / 2) * DODGE;
        return drawLine(title, points, (value) => x(placeOf(scene, value)) + shift, y, styles[at], scene.unit);
      }),
    ),
    plot,
    gist: gist(scene),
    table: () => table(scene),
  };
}

/** Names stand at equal distances, numbers at their values. */
function placeOf(scene: ExperimentScene, x: number | string): number {
  return scene.x_is_number ? Number(x) : scene.x_values.indexOf(x);
}

function xScale(scene: ExperimentScene, plot: Plot): Scale {
  const places = scene.x_values.map((x) => placeOf(scene, x));
  const [least, most] = [Math.min(...places), Math.max(...places)];
  const range = [plot.left + 16, plot.left + plot.width - 16] as const;
  if (least === most) {
    return () => plot.left + plot.width / 2;
  }
  return scene.x_is_number && least > 0 && most / least >= LINEAR_RATIO
    ? logarithmic([least, most], range)
    : linear([least, most], range);
}

function xTicks(scene: ExperimentScene, plot: Plot): Tick[] {
  const every = Math.ceil(scene.x_values.length / ticksFor(plot.width, 50));
  const room = (plot.width / scene.x_values.length) * every;
  const ticks = scene.x_values.map((x) => ({
    value: placeOf(scene, x),
    label: typeof x === "number" ? significantOrWhole(x) : fitted(x, room),
  }));
  return ticks.filter((_, at) => at % every === 0);
}

function significantOrWhole(value: number): string {
  return Number.isInteger(value) ? String(value) : significant(value);
}

function yTicks(unit: string, most: number, plot: Plot): Tick[] {
  const number = verticalTicks(plot) / 1.5;
  if (unit === "bytes" || unit === "bytes/s") {
    return byteTicks(most, number, unit === "bytes/s" ? "/s" : "");
  }
  return unit === "s" ? timeTicks(0, most, number) : numberTicks(0, most, number);
}

/** The end of the vertical axis; arrows of bounds end below it. */
function greatest(scene: ExperimentScene): number {
  const above = HEIGHT / (HEIGHT - ARROW - 2);
  const most = ({ mean, high, values, is_bound }: ExperimentPoint): number =>
    Math.max(mean, high ?? mean, ...values) * (is_bound ? above : 1);
  return Math.max(0, ...scene.lines.flatMap(({ points }) => points.map(most)));
}

/** Neighbouring values, which a line may join: it leads to no bound. */
export function joined(points: readonly ExperimentPoint[]): ExperimentPoint[][] {
  const runs: ExperimentPoint[][] = [[]];
  for (const point of points) {
    point.is_bound ? runs.push([]) : runs[runs.length - 1].push(point);
  }
  return runs.filter(({ length }) => length > 1);
}

function drawLine(
  title: string,
  points: ExperimentPoint[],
  x: (value: number | string) => number,
  y: Scale,
  style: Record<string, string>,
  unit: string,
): Mark[] {
  const path = (part: ExperimentPoint[]): string =>
    part.map((point, at) => `${at === 0 ? "M" : "L"}${x(point.x)} ${y(point.mean)}`).join("");
  const fill = style["stroke"];
  return [
    ...joined(points).map((part) => mark("path", { d: path(part), fill: "none", "stroke-width": 1.5, ...style })),
    ...points.flatMap((point) => [
      ...point.values.map((value) => mark("circle", { cx: x(point.x), cy: y(value), r: 1.8, fill, "fill-opacity": 0.45 })),
      ...interval(point, x(point.x), y, fill),
      ...(point.is_bound ? [arrow(x(point.x), y(point.mean), fill)] : []),
      titled(dot(point, x(point.x), y(point.mean), fill), pointWords(title, point, unit)),
    ]),
  ];
}

/** A bound is hollow. */
function dot({ is_bound }: ExperimentPoint, cx: number, cy: number, colour: string): Mark {
  const style = is_bound ? { fill: "var(--paper)", stroke: colour, "stroke-width": 1.5 } : { fill: colour };
  return mark("circle", { cx, cy, r: 3.5, ...style });
}

function arrow(x: number, y: number, stroke: string): Mark {
  const top = y - ARROW;
  const d = `M${x} ${y}V${top}M${x - 3.5} ${top + 5}L${x} ${top}L${x + 3.5} ${top + 5}`;
  return mark("path", { d, fill: "none", stroke, "stroke-width": 1.5 });
}

function interval({ low, high }: ExperimentPoint, x: number, y: Scale, stroke: string): Mark[] {
  if (low === null || high === null) {
    return [];
  }
  const end = (value: number): Mark => line(x - 3, y(value), x + 3, y(value), { stroke });
  return [line(x, y(low), x, y(high), { stroke }), end(low), end(high)];
}

function pointWords(title: string, { x, n, mean, low, high, is_bound }: ExperimentPoint, unit: string): string {
  const between = low === null || high === null ? "no interval" : `${inUnit(low, unit)} to ${inUnit(high, unit)}`;
  return `${title === "" ? "" : `${title}, `}${x}: ${is_bound ? "at least " : ""}${inUnit(mean, unit)} (${between}, n = ${n})`;
}

function gist(scene: ExperimentScene): string {
  return `${scene.title} over ${scene.x_title}. ${scene.lines.flatMap(({ title, points }) => points.map((point) => pointWords(title, point, scene.unit))).join("; ")}.`;
}

function table(scene: ExperimentScene): Table {
  const rows = scene.lines.flatMap(({ title, points }) =>
    points.map(({ x, n, mean, low, high, values, is_bound }): Cell[] => [
      title,
      x,
      n,
      mean,
      low,
      high,
      values.join(" "),
      is_bound,
    ]),
  );
  return { columns: ["line", scene.x_title, "n", "mean", "low", "high", "values", "is_lower_bound"], rows };
}
