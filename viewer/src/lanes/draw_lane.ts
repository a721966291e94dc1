/** Draws a lane of the timeline. */

import { byteTicks, leftAxis, linear, numberTicks, verticalTicks, type Plot, type Scale, type Tick } from "../axes.ts";
import { rateUnit } from "../format.ts";
import { fitted, legend } from "../legend.ts";
import { mark, rect, text, titled, type Mark } from "../mark.ts";
import { mirrored } from "../mirrored.ts";
import { stepArea, stepLine } from "../steps.ts";
import { splitSide, type Lane, type LaneSeries } from "./lane.ts";
import { READ } from "./traffic.ts";

/** Bars are drawn apart where they are at least so wide. */
const BAR_PIXELS = 3;
const TITLE_HEIGHT = 18;
const GAP = 14;

/** Height with the title above and the gap below. */
export function laneHeight(lane: Lane, width: number): number {
  return TITLE_HEIGHT + legendOf(lane, 0, 0, width).height + lane.height + GAP;
}

/** Draws a lane whose title begins at `top`. */
export function drawLane(lane: Lane, left: number, top: number, width: number, x: Scale): Mark[] {
  const names = legendOf(lane, left, top + TITLE_HEIGHT, width);
  const plot = { left, top: top + TITLE_HEIGHT + names.height, width, height: lane.height };
  const title = text(left, top + 12, fitted(lane.title, width * 0.95), { fill: "var(--ink)", "font-weight": 600 });
  return [title, ...names.marks, ...DRAW[lane.kind](lane, plot, x)];
}

const DRAW: Record<Lane["kind"], (lane: Lane, plot: Plot, x: Scale) => Mark[]> = {
  spans: drawSpans,
  bars: drawBars,
  area: drawArea,
  lines: drawLines,
  mirrored: drawMirrored,
};

/** Lanes of several lines or stacks name them; a stack has the same colour on both sides. */
function legendOf(lane: Lane, left: number, top: number, width: number): ReturnType<typeof legend> {
  if (lane.kind === "lines") {
    const style = ({ colour, dash }: LaneSeries): Record<string, string> => ({ stroke: colour, "stroke-dasharray": dash });
    return legend(
      lane.series.map((series) => ({ title: series.title, style: style(series), isLine: true })),
      left,
      top,
      width,
    );
  }
  if (lane.kind === "mirrored") {
    const titles = new Map(lane.series.map((series) => [splitSide(series.title)[0], series.colour]));
    return legend(
      [...titles].map(([title, fill]) => ({ title, style: { fill }, isLine: false })),
      left,
      top,
      width,
    );
  }
  return { marks: [], height: 0 };
}

function drawSpans(lane: Lane, plot: Plot, x: Scale): Mark[] {
  // A row of requests is two series: before and after the first token.
  const height = plot.height / Math.ceil(lane.series.length / 2);
  return lane.series.flatMap((series, place) => {
    const top = plot.top + Math.floor(place / 2) * height;
    return series.value.flatMap((name, at) =>
      span(x(series.begin_s[at]), x(series.end_s[at]), top, height, series.colour, String(name)),
    );
  });
}

function span(from: number, to: number, top: number, height: number, fill: string, name: string): Mark[] {
  if (to <= from) {
    return [];
  }
  const box = titled(rect(from, top, Math.max(1, to - from - 1), Math.max(1, height - 1), { fill }), name);
  const label = height < 12 ? "" : fitted(name.replaceAll("_", " "), to - from - 10);
  return [box, ...(label === "" ? [] : [text(from + 5, top + height / 2 + 4, label, { fill: "var(--ink)" })])];
}

function drawBars(lane: Lane, plot: Plot, x: Scale): Mark[] {
  const [series] = lane.series;
  const y = linear([0, lane.most || 1], [plot.top + plot.height, plot.top]);
  const shown = visible(series, x);
  const width = shown.length === 0 ? 0 : (x(series.end_s[shown[shown.length - 1]]) - x(series.begin_s[shown[0]])) / shown.length;
  const axis = leftAxis(plot, y, ticksOf(lane, plot));
  if (width < BAR_PIXELS) {
    return [...axis, area(series, shown, plot, x, y)];
  }
  const bars = shown.map((at) => {
    const [from, to, top] = [x(series.begin_s[at]), x(series.end_s[at]), y(Number(series.value[at]))];
    return rect(from, top, Math.max(1, to - from - 1), plot.top + plot.height - top, { fill: series.colour });
  });
  return [...axis, ...bars];
}

function drawArea(lane: Lane, plot: Plot, x: Scale): Mark[] {
  const y = linear([0, lane.most || 1], [plot.top + plot.height, plot.top]);
  const [series] = lane.series;
  return [...leftAxis(plot, y, ticksOf(lane, plot)), area(series, visible(series, x), plot, x, y)];
}

function area(series: LaneSeries, shown: number[], plot: Plot, x: Scale, y: Scale): Mark {
  const known = shown.filter((at) => series.value[at] !== null);
  const begin = known.map((at) => x(series.begin_s[at]));
  const end = known.map((at) => x(series.end_s[at]));
  const bottom = known.map(() => plot.top + plot.height);
  return mark("path", {
    d: stepArea(
      begin,
      end,
      bottom,
      known.map((at) => y(Number(series.value[at]))),
    ),
    fill: series.colour,
  });
}

function drawLines(lane: Lane, plot: Plot, x: Scale): Mark[] {
  const y = linear([0, lane.most || 1], [plot.top + plot.height, plot.top]);
  const lines = lane.series.map((series) => {
    const shown = visible(series, x);
    const values = shown.map((at) => (series.value[at] === null ? null : y(Number(series.value[at]))));
    const path = stepLine(
      shown.map((at) => x(series.begin_s[at])),
      shown.map((at) => x(series.end_s[at])),
      values,
    );
    return mark("path", { d: path, fill: "none", stroke: series.colour, "stroke-width": 1.5, "stroke-dasharray": series.dash });
  });
  return [...leftAxis(plot, y, ticksOf(lane, plot)), ...lines];
}

function drawMirrored(lane: Lane, plot: Plot, x: Scale): Mark[] {
  const { sign, seconds } = rateUnit();
  const { up, down, axes, middle } = mirrored(plot, lane.most, lane.most_down, sign, seconds);
  const isRead = ({ name }: LaneSeries): boolean => name.startsWith(READ);
  const written = lane.series.filter((series) => !isRead(series));
  return [...axes, ...stack(lane.series.filter(isRead), x, up), ...stack(written, x, down), middle];
}

function stack(series: LaneSeries[], x: Scale, y: Scale): Mark[] {
  let below: number[] = series[0]?.value.map(() => 0) ?? [];
  return series.map((layer) => {
    const above = below.map((sum, at) => sum + Number(layer.value[at]));
    const path = stepArea(layer.begin_s.map(x), layer.end_s.map(x), below.map(y), above.map(y));
    below = above;
    return mark("path", { d: path, fill: layer.colour });
  });
}

/** The values of which any part lies in the plot. */
function visible(series: LaneSeries, x: Scale): number[] {
  return series.begin_s.flatMap((begin, at) => (x(series.end_s[at]) > x(begin) ? [at] : []));
}

export function ticksOf(lane: Lane, plot: Plot): Tick[] {
  // One tick would be 0, from which no value can be read.
  const most = Math.max(2, Math.min(3, verticalTicks(plot)));
  return lane.unit === "bytes"
    ? byteTicks(lane.most, most)
    : numberTicks(0, lane.most, most, lane.unit === "percent" ? "%" : lane.unit);
}
