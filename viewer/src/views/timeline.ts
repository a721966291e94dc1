/** Everything that happened, on one time axis. */

import { linear, timeAxis, type Plot } from "../axes.ts";
import type { Chart, Drawing } from "../chart.ts";
import type { DetailSource } from "../detail.ts";
import { section } from "../dom.ts";
import { bytesPerSecond, counted, duration } from "../format.ts";
import { GESTURE_HELP } from "../gestures.ts";
import { drawLane, laneHeight } from "../lanes/draw_lane.ts";
import { laneTable, readLane, type Lane } from "../lanes/lane.ts";
import { runLanes } from "../lanes/run_lanes.ts";
import { picture } from "../mark.ts";
import { SIDES_NOTE } from "../mirrored.ts";
import type { RunPage } from "../page.ts";
import { timeChart } from "../time_chart.ts";
import type { Span, TimeWindow } from "../time_window.ts";
import type { RunView } from "../view.ts";

export interface TimelineScene {
  window: Span;
  lanes: Lane[];
}

const BOTTOM = 24;
/** Pixels of a bar of traffic. */
const BAR_PIXELS = 2;

export const timelineView: RunView = ({ run, window, detail, add }) =>
  section(
    "timeline",
    "Timeline",
    `When is memory read and written, and what happens meanwhile? ${SIDES_NOTE} ${GESTURE_HELP}`,
    add(timelineChart(run, window, detail)),
  );

function timelineChart(run: RunPage, window: TimeWindow, detail: DetailSource): Chart<TimelineScene> {
  const lanesOf = (shown: Span, mostBars: number): Lane[] => runLanes(run, shown, mostBars, detail.trafficFor(shown));
  const chart = lanesChart("timeline", "Timeline", window, lanesOf);
  detail.onDetail(() => chart.redraw());
  return chart;
}

/** A chart of any lanes; `lanesOf` gives those of a window. */
export function lanesChart(
  name: string,
  title: string,
  window: TimeWindow,
  lanesOf: (shown: Span, mostBars: number) => Lane[],
): Chart<TimelineScene> {
  // The values under the pointer are those of the bars as they are drawn.
  let lanes = lanesOf(window.shown, 1);
  const draw = (width: number): Drawing<TimelineScene> => {
    const left = axisWidth(width);
    lanes = lanesOf(window.shown, Math.floor((width - left) / BAR_PIXELS));
    return drawLanes(lanes, window.shown, width, left);
  };
  return timeChart({ name, title, window, draw, read: (at_s) => lanes.flatMap((lane) => readLane(lane, at_s)) });
}

/** Room for the labels of axes and rows. */
export function axisWidth(width: number): number {
  return width < 560 ? 66 : 78;
}

function drawLanes(lanes: Lane[], window: Span, width: number, left: number): Drawing<TimelineScene> {
  const inner = width - left;
  const heights = lanes.map((lane) => laneHeight(lane, inner));
  const height = heights.reduce((sum, each) => sum + each, 0);
  const plot: Plot = { left, top: 0, width: inner, height };
  const x = linear([window.begin_s, window.end_s], [left, width]);
  let top = 0;
  const drawn = lanes.flatMap((lane, place) => {
    const marks = drawLane(lane, left, top, inner, x);
    top += heights[place];
    return marks;
  });
  return {
    scene: { window, lanes },
    svg: picture(width, height + BOTTOM, ...timeAxis(plot, x, window.begin_s, window.end_s), ...drawn),
    plot,
    gist: gist(lanes, window),
    table: () => laneTable(lanes),
  };
}

function gist(lanes: Lane[], window: Span): string {
  const traffic = lanes.filter(({ kind }) => kind === "mirrored");
  const peaks = traffic.map(
    ({ most, most_down }) => `at most ${bytesPerSecond(most)} read and ${bytesPerSecond(most_down)} written`,
  );
  const span = `${duration(window.begin_s)} to ${duration(window.end_s)}`;
  return `${counted(lanes.length, "lane")} from ${span}: ${lanes.map(({ title }) => title).join(", ")}. Traffic: ${peaks.join("; ")}.`;
}
