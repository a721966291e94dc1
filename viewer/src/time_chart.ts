/** A chart over time: the shared window, a reading line, and the values below it. */

import { linear } from "./axes.ts";
import { Chart, type Drawing } from "./chart.ts";
import { button, element, swatch } from "./dom.ts";
import { moment } from "./format.ts";
import { addGestures } from "./gestures.ts";
import { length, type TimeWindow } from "./time_window.ts";

/** One value under the reading line. */
export interface Reading {
  /** What the value belongs with, such as a lane. */
  group: string;
  label: string;
  value: string;
  colour: string | null;
}

export interface TimeChartOptions<Scene extends object> {
  name: string;
  title: string;
  window: TimeWindow;
  draw: (width: number) => Drawing<Scene>;
  /** The values at a time; with null their names alone, so that the page keeps its height. */
  read: (at_s: number | null) => Reading[];
  click?: (at: { x: number; y: number }) => void;
}

export function timeChart<Scene extends object>(options: TimeChartOptions<Scene>): Chart<Scene> {
  const { window } = options;
  const chart = new Chart(options.name, options.title, (width) => {
    // The values below are those of what is drawn, so they are read again after it.
    queueMicrotask(() => read());
    return options.draw(width);
  });
  chart.window = window;
  const crosshair = element("div", { class: "crosshair", hidden: true });
  const readout = element("dl", { class: "readout", "aria-live": "polite" });
  chart.frame.append(crosshair);
  chart.section.append(readout);
  chart.controls.prepend(windowControls(window));
  addGestures(chart, window, options.click ?? (() => undefined));

  const read = (): void => {
    showCrosshair(crosshair, chart, window);
    showReadings(readout, window, options.read(window.cursor_s));
  };
  chart.live = () => ({ window: window.shown, cursor_s: window.cursor_s, readings: options.read(window.cursor_s) });
  window.onCursor(read);
  window.onWindow(() => chart.redraw());
  showReadings(readout, window, options.read(null));
  return chart;
}

/** Says which part of the run is shown, with buttons for readers without wheel or keyboard. */
function windowControls(window: TimeWindow): HTMLElement {
  const shown = element("span", { class: "window" });
  const whole = button("Whole run", () => window.reset());
  const update = (): void => {
    const { begin_s, end_s } = window.shown;
    const span_s = length(window.shown);
    shown.textContent = `${moment(begin_s, span_s)} to ${moment(end_s, span_s)}`;
    whole.disabled = window.isWhole;
  };
  window.onWindow(update);
  update();
  const zoomIn = button("+", () => window.zoom(0.5), { "aria-label": "Zoom in" });
  const zoomOut = button("−", () => window.zoom(2), { "aria-label": "Zoom out" });
  return element("span", { class: "zoom" }, zoomOut, zoomIn, whole, shown);
}

function showCrosshair(crosshair: HTMLElement, chart: Chart, { cursor_s, shown }: TimeWindow): void {
  crosshair.hidden = cursor_s === null || cursor_s < shown.begin_s || cursor_s > shown.end_s;
  if (cursor_s !== null && !crosshair.hidden) {
    const { plot } = chart.drawing;
    const x = linear([shown.begin_s, shown.end_s], [plot.left, plot.left + plot.width])(cursor_s);
    crosshair.style.left = `${x}px`;
    crosshair.style.top = `${plot.top}px`;
    crosshair.style.height = `${plot.height}px`;
  }
}

function showReadings(list: HTMLElement, { cursor_s, shown }: TimeWindow, readings: Reading[]): void {
  const time = cursor_s === null ? "Point at the chart" : `At ${moment(cursor_s, length(shown))}`;
  const groups = [...new Set(readings.map(({ group }) => group))].map((group) =>
    element("div", {}, element("dt", {}, group), ...readings.filter((reading) => reading.group === group).map(showReading)),
  );
  list.replaceChildren(element("div", { class: "moment" }, element("dt", {}, time)), ...groups);
}

function showReading({ label, value, colour }: Reading): HTMLElement {
  return element("dd", {}, colour === null ? null : swatch(colour), label === "" ? null : `${label} `, element("b", {}, value));
}
