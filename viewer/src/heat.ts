/** From values to shades: scales, blending, cells on a canvas, and legends. */

import { logarithmic, linear, powerTicks, type Plot, type Scale } from "./axes.ts";
import { css, mixed, type Rgb } from "./colours.ts";
import { brief, bytes, count } from "./format.ts";
import { rect, text, type Mark } from "./mark.ts";

/** What the palest and the darkest shade stand for. */
export interface HeatScale {
  least: number;
  most: number;
  isLog: boolean;
}

/** The least value still differs from nothing. */
const LEAST_SHADE = 0.24;
const LEGEND_STEPS = 24;

/** The scale of all values above nothing. */
export function heatScale(values: Iterable<number>, isLog: boolean): HeatScale {
  let [least, most] = [Infinity, 0];
  for (const value of values) {
    if (value > 0) {
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  return { least: most === 0 ? 0 : isLog ? least : 0, most, isLog };
}

/** How dark a value is: 0 for nothing, else from the least shade to 1. */
export function shade(value: number, scale: HeatScale): number {
  if (value <= 0 || scale.most === 0) {
    return 0;
  }
  const share =
    scale.most === scale.least
      ? 1
      : scale.isLog
        ? Math.log(value / scale.least) / Math.log(scale.most / scale.least)
        : value / scale.most;
  return LEAST_SHADE + (1 - LEAST_SHADE) * share;
}

/** A shade of one colour on paper. */
export function tint(paper: Rgb, colour: Rgb, darkness: number): Rgb {
  return mixed(paper, colour, darkness);
}

/**
 * Two shades in one cell: what each takes from the paper is added. On white both together become black, on black white, and
 * either alone keeps its hue.
 */
export function blended(paper: Rgb, first: Rgb, second: Rgb): Rgb {
  const channel = (at: 0 | 1 | 2): number => Math.min(255, Math.max(0, first[at] + second[at] - paper[at]));
  return [channel(0), channel(1), channel(2)];
}

/** Fills a cell to whole pixels of the canvas, so that neighbours have no seam, and at least one. */
export function fillCell(context: CanvasRenderingContext2D, ratio: number, x0: number, x1: number, y0: number, y1: number): void {
  const snap = (value: number): number => Math.round(value * ratio) / ratio;
  const [left, top] = [snap(x0), snap(y0)];
  context.fillRect(left, top, Math.max(snap(x1) - left, 1 / ratio), Math.max(snap(y1) - top, 1 / ratio));
}

/** Gives colours by darkness as text. A canvas takes text alone, and making it for each cell would take longer than painting. */
export function cachedCss(colour: (first: number, second: number) => Rgb): (first: number, second: number) => string {
  const steps = 48;
  const made = new Map<number, string>();
  return (first, second) => {
    const key = Math.round(first * steps) * (steps + 1) + Math.round(second * steps);
    const known = made.get(key) ?? css(colour(Math.round(first * steps) / steps, Math.round(second * steps) / steps));
    made.set(key, known);
    return known;
  };
}

export interface LegendBar {
  title: string;
  /** Colour of the darkest shade. */
  fill: string;
}

export const LEGEND_HEIGHT = 66;

/** Bars of the shades over one axis of values. */
export function heatLegend(plot: Plot, scale: HeatScale, unit: "bytes" | "count", title: string, bars: LegendBar[]): Mark[] {
  if (scale.most === 0) {
    return [];
  }
  const left = plot.left + 64;
  const width = Math.min(320, plot.width - 84);
  const x = legendScale(scale, left, left + width);
  const bottom = plot.top + 12 + bars.length * 10;
  const label = (value: number): string => brief((unit === "bytes" ? bytes : count)(value));
  const marks =
    scale.isLog && scale.most > scale.least * 2
      ? powerTicks([scale.least, scale.most], unit === "bytes" ? 2 : 10, Math.floor(width / 70), label)
      : [scale.least, scale.most]
          .filter((value, at, all) => all.indexOf(value) === at)
          .map((value) => ({ value, label: label(value) }));
  return [
    text(plot.left, plot.top + 4, title),
    ...bars.flatMap((bar, at) => legendBar(bar, left, plot.top + 12 + at * 10, width)),
    ...marks.map((tick) => text(x(tick.value), bottom + 13, tick.label, { "text-anchor": "middle", "font-size": 11 })),
  ];
}

function legendScale(scale: HeatScale, left: number, right: number): Scale {
  return scale.isLog && scale.most > scale.least
    ? logarithmic([scale.least, scale.most], [left, right])
    : linear([scale.least, scale.most], [left, right]);
}

function legendBar({ title, fill }: LegendBar, left: number, top: number, width: number): Mark[] {
  const step = width / LEGEND_STEPS;
  const boxes = Array.from({ length: LEGEND_STEPS }, (_, at) => {
    const darkness = LEAST_SHADE + ((1 - LEAST_SHADE) * at) / (LEGEND_STEPS - 1);
    return rect(left + at * step, top, step, 8, { fill, "fill-opacity": darkness });
  });
  return [text(left - 8, top + 8, title, { "text-anchor": "end", "font-size": 11 }), ...boxes];
}
