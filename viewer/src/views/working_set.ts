/** Bytes that each step touched, by region type. */

import { max } from "d3-array";

import {
  bottomAxis,
  leftAxis,
  linear,
  logarithmic,
  numberTicks,
  powerTicks,
  ticksFor,
  verticalTicks,
  type Plot,
} from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { byRegionType, regionColour, regionDash } from "../colours.ts";
import type { Table } from "../csv.ts";
import { brief, bytes, count } from "../format.ts";
import { legend } from "../legend.ts";
import { mark, picture, text, type Mark } from "../mark.ts";
import type { RunPage, WorkingSetSteps } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import { stepLine } from "../steps.ts";
import { axisWidth } from "./timeline.ts";

const HEIGHT = 200;
const BOTTOM = 38;

export function workingSetChart(run: RunPage): Chart<WorkingSetSteps> {
  return new Chart("working_set", "Working set of each step", (width) => draw(run, run.overview.working_set, width));
}

function draw(run: RunPage, scene: WorkingSetSteps, width: number): Drawing<WorkingSetSteps> {
  const left = axisWidth(width);
  const series = [...scene.series].sort(byRegionType);
  const names = legend(
    series.map(({ region_type }) => ({
      title: regionTitle(run, region_type),
      style: { stroke: regionColour(region_type), "stroke-dasharray": regionDash(region_type) },
      isLine: true,
    })),
    left,
    0,
    width - left,
  );
  const plot: Plot = { left, top: names.height + 6, width: width - left, height: HEIGHT };
  const points = max(series, (each) => each.bytes.length) ?? 0;
  const x = linear([0, points * scene.steps_per_point], [plot.left, plot.left + plot.width]);
  const domain = byteDomain(series.flatMap((each) => each.bytes));
  const y = logarithmic(domain, [plot.top + HEIGHT, plot.top]);
  const lines = series.map((each): Mark => {
    const begin = each.bytes.map((_, at) => x(at * scene.steps_per_point));
    const end = each.bytes.map((_, at) => x((at + 1) * scene.steps_per_point));
    const path = stepLine(
      begin,
      end,
      each.bytes.map((value) => (value > 0 ? y(value) : null)),
    );
    return mark("path", {
      d: path,
      fill: "none",
      stroke: regionColour(each.region_type),
      "stroke-width": 2.5,
      "stroke-dasharray": regionDash(each.region_type),
    });
  });
  return {
    scene,
    svg: picture(
      width,
      plot.top + HEIGHT + BOTTOM,
      ...names.marks,
      ...bottomAxis(plot, x, numberTicks(0, points * scene.steps_per_point, ticksFor(plot.width, 70))),
      ...leftAxis(
        plot,
        y,
        powerTicks(domain, 2, verticalTicks(plot) / 1.5, (size) => brief(bytes(size))),
      ),
      text(width, plot.top + HEIGHT + 32, "step; 0 is the prompt", { "text-anchor": "end" }),
      ...lines,
    ),
    plot,
    gist: gist(run, series),
    table: () => table(scene, series),
  };
}

/** Whole powers of two around all sizes. */
function byteDomain(sizes: number[]): [number, number] {
  const known = sizes.filter((size) => size > 0);
  const [least, most] = known.reduce(([low, high], size) => [Math.min(low, size), Math.max(high, size)], [Infinity, 1]);
  return known.length === 0 ? [1, 2] : [2 ** Math.floor(Math.log2(least)), 2 ** Math.ceil(Math.log2(most) + 0.01)];
}

function gist(run: RunPage, series: WorkingSetSteps["series"]): string {
  const words = series.map(
    (each) => `${regionTitle(run, each.region_type)} from ${bytes(each.bytes[0] ?? null)} to ${bytes(each.bytes.at(-1) ?? null)}`,
  );
  return `Bytes touched in each of ${count(max(series, (each) => each.bytes.length) ?? 0)} points, first to last: ${words.join("; ")}.`;
}

function table(scene: WorkingSetSteps, series: WorkingSetSteps["series"]): Table {
  const rows = series.flatMap((each) =>
    each.bytes.map((value, at) => [each.region_type, at * scene.steps_per_point, scene.steps_per_point, value]),
  );
  return { columns: ["region_type", "first_step", "steps", "most_bytes"], rows };
}
