/** How long data lives: the share of bytes that live longer than a time. */

import { extent } from "d3-array";

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
  type Scale,
} from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { byRegionType, regionColour, regionDash } from "../colours.ts";
import type { Cell, Table } from "../csv.ts";
import { choice, element, section, swatch } from "../dom.ts";
import { brief, bytes, duration, percent } from "../format.ts";
import { legend, type LegendEntry } from "../legend.ts";
import { mark, picture, text, titled, type Mark } from "../mark.ts";
import type { RunPage, SurvivalCurve } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import { stepArea, stepLine } from "../steps.ts";
import { drawThresholds, recordedNote, recordedThresholds, THRESHOLD_HEIGHT, type RecordedThreshold } from "../thresholds.ts";
import type { RunView } from "../view.ts";

type Endpoint = SurvivalCurve["endpoint"];

interface Curve extends SurvivalCurve {
  title: string;
  open_share: number;
}

interface Panel {
  run_id: string;
  curves: Curve[];
  thresholds: RecordedThreshold[];
}

export interface SurvivalScene {
  endpoint: Endpoint;
  /** Times at the ends of the axis, which all panels share. */
  domain_s: [number, number];
  panels: Panel[];
}

const ENDPOINTS = [
  ["retention", "Needed: until the last read"],
  ["residency", "Held: until overwritten"],
] as const;
const HEIGHT = 300;
const BOTTOM = 46;
const GAP = 26;
const LEAST_PANEL = 320;
const LEFT = 52;

export const survivalView: RunView = ({ run, add }) =>
  run.overview.survival.length === 0
    ? null
    : section(
        "survival",
        "Survival of data",
        "How long does data live? Each line is the share of bytes that live longer than the time below. A line that stays up is memory that has to keep its data.",
        add(survivalChart([run])),
      );

export function survivalChart(runs: readonly RunPage[]): Chart<SurvivalScene> {
  let endpoint: Endpoint = "retention";
  const chart = new Chart("survival", "Survival of data", (width) => draw(survivalScene(runs, endpoint), width));
  const words = element("ul", { class: "words" });
  const update = (): void => {
    words.replaceChildren(
      ...survivalScene(runs, endpoint).panels.flatMap((panel) =>
        panel.curves.map((curve) => sentence(curve, panel, runs.length > 1)),
      ),
    );
  };
  chart.controls.prepend(
    choice("What a life is measured to", ENDPOINTS, endpoint, (chosen) => {
      endpoint = chosen;
      chart.redraw();
      update();
    }),
  );
  chart.section.append(
    words,
    ...runs.map((run) => element("p", { class: "note" }, (runs.length > 1 ? `${run.run_id}: ` : "") + recordedNote(run))),
  );
  update();
  return chart;
}

export function survivalScene(runs: readonly RunPage[], endpoint: Endpoint): SurvivalScene {
  const panels = runs.map((run) => ({
    run_id: run.run_id,
    curves: run.overview.survival
      .filter((curve) => curve.endpoint === endpoint)
      .sort(byRegionType)
      .map((curve) => ({
        ...curve,
        title: regionTitle(run, curve.region_type),
        open_share: curve.life_bytes === 0 ? 0 : curve.open_bytes / curve.life_bytes,
      })),
    thresholds: recordedThresholds(run),
  }));
  return { endpoint, domain_s: domain(panels), panels };
}

/** From below the shortest life, which a logarithmic axis has no zero for, to beyond the longest and the thresholds. */
function domain(panels: Panel[]): [number, number] {
  const times = panels.flatMap(({ curves, thresholds }) => [
    ...curves.flatMap(({ at_s }) => at_s),
    ...thresholds.map(({ most_s }) => most_s),
  ]);
  const known = times.filter((time_s) => time_s > 0);
  const [least_s, most_s] = extent(known);
  return least_s === undefined ? [1e-3, 1] : [least_s / 2, most_s * 1.6];
}

function draw(scene: SurvivalScene, width: number): Drawing<SurvivalScene> {
  const columns = Math.max(1, Math.min(scene.panels.length, Math.floor(width / LEAST_PANEL)));
  const panelWidth = (width - GAP * (columns - 1)) / columns;
  const titleHeight = THRESHOLD_HEIGHT + (scene.panels.length > 1 ? 16 : 0);
  const names = legend(entries(scene), LEFT, 0, width - LEFT);
  const rowHeight = titleHeight + HEIGHT + BOTTOM;
  const plots = scene.panels.map((_, at) => ({
    left: (at % columns) * (panelWidth + GAP) + LEFT,
    top: names.height + Math.floor(at / columns) * rowHeight + titleHeight,
    width: panelWidth - LEFT,
    height: HEIGHT,
  }));
  const height = names.height + Math.ceil(scene.panels.length / columns) * rowHeight;
  const title = (panel: Panel, plot: Plot): Mark[] =>
    scene.panels.length > 1
      ? [text(plot.left, plot.top - THRESHOLD_HEIGHT - 4, panel.run_id, { fill: "var(--ink)", "font-weight": 600 })]
      : [];
  return {
    scene,
    svg: picture(
      width,
      height,
      ...names.marks,
      ...scene.panels.flatMap((panel, at) => [...title(panel, plots[at]), ...drawPanel(panel, scene, plots[at])]),
    ),
    plot: plots[0] ?? { left: 0, top: 0, width, height },
    gist: gist(scene),
    table: () => table(scene),
  };
}

function drawPanel(panel: Panel, scene: SurvivalScene, plot: Plot): Mark[] {
  const x = logarithmic(scene.domain_s, [plot.left, plot.left + plot.width]);
  const y = linear([0, 1], [plot.top + plot.height, plot.top]);
  const xTicks = powerTicks(scene.domain_s, 10, ticksFor(plot.width, 64), (time_s) => brief(duration(time_s)));
  const yTicks = numberTicks(0, 100, Math.min(5, verticalTicks(plot)), "%").map(({ value, label }) => ({
    value: value / 100,
    label,
  }));
  const axisTitle = scene.endpoint === "retention" ? "time from store to last load" : "time from store to next store";
  return [
    ...bottomAxis(plot, x, xTicks),
    ...leftAxis(plot, y, yTicks),
    text(plot.left + plot.width, plot.top + plot.height + 34, axisTitle, { "text-anchor": "end" }),
    ...(scene.endpoint === "retention" ? drawThresholds(panel.thresholds, plot, x) : []),
    ...panel.curves.flatMap((curve) => drawCurve(curve, x, y, plot)),
  ];
}

function drawCurve(curve: Curve, x: Scale, y: Scale, plot: Plot): Mark[] {
  if (curve.at_s.length === 0) {
    return [];
  }
  const colour = regionColour(curve.region_type);
  // Every byte lives longer than the left edge of the axis, or as long as nothing that was measured.
  const begin = [plot.left, ...curve.at_s.map(x)];
  const end = [...begin.slice(1), begin[begin.length - 1]];
  const from = (values: number[]): number[] => [1, ...values].map(y);
  const band = mark("path", {
    d: stepArea(begin, end, from(curve.surviving_low), from(curve.surviving_high)),
    fill: colour,
    "fill-opacity": 0.16,
  });
  const path = mark("path", {
    d: stepLine(begin, end, from(curve.surviving)),
    fill: "none",
    stroke: colour,
    "stroke-width": 2.5,
    "stroke-dasharray": regionDash(curve.region_type),
  });
  return [band, titled(path, `${curve.title}: ${openWords(curve)}`), ...openEnd(curve, begin[begin.length - 1], y, colour)];
}

/** A ring where the trace ended while data lived: the curve goes on, unseen. */
function openEnd(curve: Curve, at: number, y: Scale, colour: string): Mark[] {
  const last = curve.surviving[curve.surviving.length - 1];
  const ring = { cx: at, cy: y(last), r: 4, fill: "var(--paper)", stroke: colour, "stroke-width": 2 };
  return hasOpenEnd(curve) ? [mark("circle", ring)] : [];
}

/** A curve that ends at 0 s says of data that was left only that it lasts longer than nothing. */
export function hasOpenEnd({ open_bytes, at_s, surviving }: SurvivalCurve): boolean {
  return open_bytes > 0 && (at_s.at(-1) ?? 0) > 0 && (surviving.at(-1) ?? 0) > 0;
}

function entries(scene: SurvivalScene): LegendEntry[] {
  const titles = new Map(scene.panels.flatMap(({ curves }) => curves.map((curve) => [curve.title, curve.region_type] as const)));
  return [...titles].map(([title, type]) => ({
    title,
    style: { stroke: regionColour(type), "stroke-dasharray": regionDash(type) },
    isLine: true,
  }));
}

function openWords(curve: Curve): string {
  return curve.open_bytes === 0
    ? "every life had ended"
    : `${percent(curve.open_share)} of bytes had not ended when the trace did`;
}

function sentence(curve: Curve, panel: Panel, hasSeveral: boolean): HTMLElement {
  const where = hasSeveral ? `${panel.run_id}, ` : "";
  return element(
    "li",
    {},
    swatch(regionColour(curve.region_type)),
    `${where}${curve.title}: `,
    `${openWords(curve)} (lives of ${bytes(curve.life_bytes)}).`,
  );
}

function gist(scene: SurvivalScene): string {
  const curves = scene.panels.flatMap((panel) => panel.curves.map((curve) => `${curve.title}: ${openWords(curve)}`));
  return `Share of bytes that live longer than a time, by region type. ${curves.join("; ")}.`;
}

function table(scene: SurvivalScene): Table {
  const rows = scene.panels.flatMap(({ run_id, curves }) =>
    curves.flatMap((curve) =>
      curve.at_s.map((at_s, at): Cell[] => [
        run_id,
        curve.region_type,
        curve.endpoint,
        at_s,
        curve.surviving[at],
        curve.surviving_low[at],
        curve.surviving_high[at],
      ]),
    ),
  );
  return { columns: ["run_id", "region_type", "endpoint", "at_s", "surviving", "surviving_low", "surviving_high"], rows };
}
