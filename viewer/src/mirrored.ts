/** Axes of what is read (upward) and written (downward). Each has a scale of its own, because far more is read than written. */

import { byteTicks, leftAxis, linear, verticalTicks, type Plot, type Scale } from "./axes.ts";
import { line, type Mark } from "./mark.ts";

export interface Mirrored {
  up: Scale;
  down: Scale;
  /** Drawn below the data. */
  axes: Mark[];
  /** Drawn above the data. */
  middle: Mark;
}

/** Says what the two sides are; part of the title, because the plot has no room that is surely free. */
export const SIDES = "read ↑, written ↓";
export const SIDES_NOTE = "Reads go up and writes go down, each on a scale of its own.";

/** Share of the height that lies above the middle. */
const UP_SHARE = 0.62;

/** `per` is written behind each number, and `size` is what a number of 1 stands for. */
export function mirrored(plot: Plot, most_read: number, most_written: number, per = "", size = 1): Mirrored {
  const middle = plot.top + plot.height * UP_SHARE;
  const above = { ...plot, height: middle - plot.top };
  const below = { ...plot, top: middle, height: plot.height - above.height };
  const up = linear([0, most_read || 1], [middle, plot.top]);
  const down = linear([0, most_written || 1], [middle, plot.top + plot.height]);
  return {
    up,
    down,
    axes: [
      ...leftAxis(above, up, byteTicks(most_read, verticalTicks(above), per, size)),
      ...leftAxis(below, down, byteTicks(most_written, verticalTicks(below), per, size).slice(1)),
    ],
    middle: line(plot.left, middle, plot.left + plot.width, middle, { stroke: "var(--ink)" }),
  };
}
