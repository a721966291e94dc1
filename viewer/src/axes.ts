/** Axes: ticks with units, and the marks that show them. */

import { ticks } from "d3-array";
import { scaleLinear, scaleLog } from "d3-scale";

import { byteUnit, clock, fixed, timeUnit, withUnit } from "./format.ts";
import { textWidth } from "./legend.ts";
import { line, text, type Mark } from "./mark.ts";

/** A rectangle of the picture in which data is drawn. */
export interface Plot {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Tick {
  value: number;
  label: string;
}

/** From data to pixels; values outside end at the edge, which cuts step lines and bars where the plot ends. */
export type Scale = (value: number) => number;

/** Pixels that a label with its surroundings needs. */
const LABEL_WIDTH = 84;
const LABEL_HEIGHT = 26;
/** Pixels between two labels, at least. */
const LABEL_GAP = 4;

export function linear(domain: readonly [number, number], range: readonly [number, number]): Scale {
  return scaleLinear(domain, range).clamp(true);
}

export function logarithmic(domain: readonly [number, number], range: readonly [number, number]): Scale {
  return scaleLog(domain, range).clamp(true);
}

export function ticksFor(pixels: number, perTick: number): number {
  return Math.max(1, Math.floor(pixels / perTick));
}

/** Seconds between ticks that are labelled in minutes or hours: a tick every 0.4 min would be at no round time. */
const CLOCK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

/** Ticks of seconds, all in one unit, with as many decimals as tell them apart. */
export function timeTicks(begin_s: number, end_s: number, most: number): Tick[] {
  const unit = timeUnit(Math.max(Math.abs(begin_s), Math.abs(end_s)));
  if (unit.seconds >= 60) {
    return clockTicks(begin_s, end_s, most);
  }
  return labelled(ticks(begin_s / unit.seconds, end_s / unit.seconds, most), unit.seconds, unit.name);
}

/** Ticks at whole seconds, minutes or hours; decimals of seconds where the span is shorter. */
function clockTicks(begin_s: number, end_s: number, most: number): Tick[] {
  const least_s = (end_s - begin_s) / most;
  const step_s = CLOCK_STEPS_S.find((each) => each >= least_s) ?? Math.ceil(least_s / 86400) * 86400;
  if (least_s < 0.5) {
    return labelled(ticks(begin_s, end_s, most), 1, "s");
  }
  const first = Math.ceil(begin_s / step_s - 1e-9);
  const number = Math.floor(end_s / step_s + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, at) => (first + at) * step_s).map((value) => ({ value, label: clock(value, end_s) }));
}

/** Ticks of bytes from 0, at round numbers of the unit. */
/** Values are bytes divided by `size`. */
export function byteTicks(most_bytes: number, most: number, per = "", size = 1): Tick[] {
  const unit = byteUnit(most_bytes * size);
  return labelled(ticks(0, (most_bytes * size) / unit.bytes, most), unit.bytes / size, unit.name + per);
}

export function numberTicks(begin: number, end: number, most: number, unit = ""): Tick[] {
  return labelled(ticks(begin, end, most), 1, unit);
}

function labelled(values: number[], size: number, unit: string): Tick[] {
  const step = values.length > 1 ? Math.abs(values[1] - values[0]) : Math.abs(values[0] ?? 1);
  const decimals = step === 0 ? 0 : Math.min(9, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return values.map((value) => ({ value: value * size, label: withUnit(fixed(value, decimals), unit) }));
}

/** Powers of `base` within a domain, thinned until they fit. */
export function powerTicks(
  domain: readonly [number, number],
  base: number,
  most: number,
  label: (value: number) => string,
): Tick[] {
  const power = (value: number): number => Math.log(value) / Math.log(base);
  const first = Math.ceil(power(domain[0]) - 1e-9);
  const last = Math.floor(power(domain[1]) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
  const found: Tick[] = [];
  for (let at = first; at <= last; at += step) {
    found.push({ value: base ** at, label: label(base ** at) });
  }
  return found;
}

/** Labels below a plot, with lines through it, or short ones below it where they would cross a map. */
export function bottomAxis(plot: Plot, scale: Scale, shown: Tick[], isMap = false): Mark[] {
  const bottom = plot.top + plot.height;
  let end = -Infinity;
  return shown.flatMap(({ value, label }) => {
    const x = scale(value);
    const tick = isMap ? gridLine(x, bottom, x, bottom + 4) : gridLine(x, plot.top, x, bottom);
    const extent = labelExtent(x, label, plot);
    // A label that is moved inside the picture may reach its neighbour: then its line is drawn alone.
    if (extent[0] < end + LABEL_GAP) {
      return [tick];
    }
    end = extent[1];
    return [tick, text(x, bottom + 16, label, { "text-anchor": anchor(x, plot) })];
  });
}

/** From where to where a label reaches. */
function labelExtent(x: number, label: string, plot: Plot): [number, number] {
  const width = textWidth(label);
  const place = anchor(x, plot);
  const begin = place === "start" ? x : place === "end" ? x - width : x - width / 2;
  return [begin, begin + width];
}

/** Labels left of a plot, with lines through it. */
export function leftAxis(plot: Plot, scale: Scale, shown: Tick[], isMap = false): Mark[] {
  return shown.flatMap(({ value, label }) => {
    const y = scale(value);
    return [
      gridLine(plot.left - (isMap ? 4 : 0), y, plot.left + (isMap ? 0 : plot.width), y),
      text(plot.left - 6, y + 4, label, { "text-anchor": "end" }),
    ];
  });
}

/** The time axis of a window. */
export function timeAxis(plot: Plot, scale: Scale, begin_s: number, end_s: number, isMap = false): Mark[] {
  return bottomAxis(plot, scale, timeTicks(begin_s, end_s, ticksFor(plot.width, LABEL_WIDTH)), isMap);
}

export function verticalTicks(plot: Plot): number {
  return ticksFor(plot.height, LABEL_HEIGHT);
}

function gridLine(x1: number, y1: number, x2: number, y2: number): Mark {
  return line(x1, y1, x2, y2, { stroke: "var(--grid)" });
}

/** Labels at the ends stay inside the picture. */
function anchor(x: number, plot: Plot): string {
  const edge = LABEL_WIDTH / 4;
  if (x < plot.left + edge) {
    return "start";
  }
  return x > plot.left + plot.width - edge ? "end" : "middle";
}
