/** Runs side by side: a table, and their traffic on the same axes. */

import { max } from "d3-array";

import type { Chart } from "../chart.ts";
import { element, scrolling, section } from "../dom.ts";
import { trafficLane } from "../lanes/traffic.ts";
import { SIDES, SIDES_NOTE } from "../mirrored.ts";
import type { Comparison, RunPage } from "../page.ts";
import { TimeWindow } from "../time_window.ts";
import type { AddChart } from "../view.ts";
import { regionTable } from "./regions.ts";
import { survivalChart } from "./survival.ts";
import { lanesChart, type TimelineScene } from "./timeline.ts";
import { trustList, trustWords } from "./trust.ts";

/** Runs under names that tell them apart: folders of several models may each have a run of the same name. */
export function namedRuns({ run_titles }: Pick<Comparison, "run_titles">, runs: RunPage[]): RunPage[] {
  return runs.map((run, at) => ({ ...run, run_id: run_titles[at] ?? run.run_id }));
}

export function comparisonSections(comparison: Comparison, pages: RunPage[], add: AddChart): HTMLElement[] {
  const runs = namedRuns(comparison, pages);
  const notes = element("ul", { class: "words" }, ...comparison.notes.map((note) => element("li", {}, note)));
  const verdicts = runs.flatMap((run) => [
    element("h3", {}, run.run_id, element("span", { class: "tally" }, trustWords(run.trust))),
    element("p", { class: "headline" }, run.headline),
    element("p", {}, run.answer),
    element("details", {}, element("summary", {}, "How far to trust this run"), trustList(run.trust)),
    regionTable(run),
  ]);
  const hasNotes = comparison.notes.length > 0;
  const table = section(
    "comparison",
    "Comparison",
    hasNotes ? "What makes the runs unequal:" : null,
    hasNotes ? notes : null,
    comparisonTable(comparison),
  );
  // Groups of runs are compared by their table alone.
  if (runs.length === 0) {
    return [table];
  }
  return [
    table,
    section("runs", "Verdicts", null, ...verdicts),
    section(
      "survival",
      "Survival of data",
      "How long does data live in each run? All panels have the same axes.",
      add(survivalChart(runs)),
    ),
    section(
      "traffic",
      "Memory traffic",
      `When is memory read and written? ${SIDES_NOTE} All runs share them, each from its own beginning.`,
      add(trafficComparison(runs)),
    ),
  ];
}

function comparisonTable({ columns, sections }: Comparison): HTMLElement {
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, ""),
    ...columns.map((column) => element("th", { scope: "col" }, column)),
  );
  const bodies = sections.map(({ title, rows }) =>
    element(
      "tbody",
      {},
      element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: columns.length + 1 }, title)),
      ...rows.map((row) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, row.label),
          ...row.texts.map((text, at) => element("td", { class: "number", title: exact(row.values[at], row.unit) }, text)),
        ),
      ),
    ),
  );
  return scrolling("Comparison", element("table", { class: "comparison" }, element("thead", {}, head), ...bodies));
}

/** The number behind the text, unrounded. */
function exact(value: number | null, unit: string): string | null {
  return value === null ? null : `${value} ${unit}`.trim();
}

/** Traffic of all runs: each from its own beginning, all to the same scales. */
function trafficComparison(runs: readonly RunPage[]): Chart<TimelineScene> {
  const window = new TimeWindow({ begin_s: 0, end_s: max(runs, (run) => run.timeline.end_s) ?? 1 });
  return lanesChart("traffic", "Memory traffic of the runs", window, (shown, mostBars) => {
    const lanes = runs.map((run) => ({
      ...trafficLane(run, shown, mostBars),
      name: run.run_id,
      title: `${run.run_id}: ${SIDES}`,
    }));
    const most = max(lanes, (lane) => lane.most) ?? 0;
    const most_down = max(lanes, (lane) => lane.most_down) ?? 0;
    return lanes.map((lane) => ({ ...lane, most, most_down }));
  });
}
