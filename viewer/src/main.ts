/** Puts the page together. */

import type { Chart } from "./chart.ts";
import { readPage } from "./data.ts";
import { element } from "./dom.ts";
import type { Page, RunPage } from "./page.ts";
import { themeChoice, watchTheme } from "./theme.ts";
import { TimeWindow } from "./time_window.ts";
import type { AddChart, RunView } from "./view.ts";
import { activityView } from "./views/activity.ts";
import { comparisonSections } from "./views/comparison.ts";
import { experimentSections } from "./views/experiment.ts";
import { helpView } from "./views/help.ts";
import { kvView } from "./views/kv.ts";
import { memoryView } from "./views/memory.ts";
import { memoryMapView } from "./views/memory_map.ts";
import { metricsView } from "./views/metrics.ts";
import { survivalView } from "./views/survival.ts";
import { timelineView } from "./views/timeline.ts";
import { verdictView } from "./views/verdict.ts";

/** The views of a run, in the order of the page. */
const RUN_VIEWS: readonly RunView[] = [
  verdictView,
  timelineView,
  memoryMapView,
  kvView,
  survivalView,
  activityView,
  memoryView,
  metricsView,
];

/** What tests and curious readers find as `dwell` in the console. */
interface Handle {
  page: Page;
  charts: Map<string, Chart>;
  scene: (name: string) => object | undefined;
}

declare global {
  var dwell: Handle;
}

async function start(): Promise<void> {
  const root = document.getElementById("dwell") ?? document.body;
  try {
    show(await readPage(), root);
  } catch (error) {
    root.replaceChildren(
      element(
        "p",
        { class: "failure", role: "alert" },
        `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}.`,
      ),
    );
    throw error;
  }
}

function show(page: Page, root: HTMLElement): void {
  const charts = new Map<string, Chart>();
  const add: AddChart = (chart) => {
    charts.set(chart.name, chart);
    return chart.section;
  };
  const sections = [...sectionsOf(page, add), helpView()].filter((each) => each !== null);
  root.replaceChildren(header(page, sections), ...sections, element("footer", {}, `Written by ${page.written_by}.`));
  watchTheme();
  openForPrint(root);
  // Charts are as wide as their place in the document, so they are drawn after they have one.
  charts.forEach((chart) => void chart.drawing);
  globalThis.dwell = { page, charts, scene: (name) => charts.get(name)?.scene };
}

function sectionsOf(page: Page, add: AddChart): (HTMLElement | null)[] {
  if (page.experiment !== null) {
    return experimentSections(page.experiment, add);
  }
  if (page.comparison !== null) {
    return comparisonSections(page.comparison, page.runs, add);
  }
  return page.runs.flatMap((run) => {
    const window = new TimeWindow({ begin_s: 0, end_s: run.timeline.end_s || 1 });
    return RUN_VIEWS.map((view) => view({ run, window, add }));
  });
}

function header(page: Page, sections: HTMLElement[]): HTMLElement {
  const links = sections.map((each) => element("a", { href: `#${each.id}` }, each.querySelector("h2")?.textContent ?? each.id));
  return element(
    "header",
    {},
    element("div", { class: "masthead" }, element("h1", {}, page.title), themeChoice()),
    page.kind === "run" && page.runs.length === 1 ? facts(page.runs[0]) : null,
    element("nav", { class: "contents", "aria-label": "Contents" }, ...links),
  );
}

function facts(run: RunPage): HTMLElement {
  const known = [
    ["Model", run.model],
    ["Engine", run.engine],
    ["Machine", run.machine],
    ["Recorded", run.recorded_utc],
    ["Run", run.run_id],
    ["State", run.state],
  ] as const;
  const shown = known.filter(([, value]) => value !== null && value !== "");
  return element(
    "dl",
    { class: "facts" },
    ...shown.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/** Paper cannot be clicked: everything is opened for it, and closed again after. */
function openForPrint(root: HTMLElement): void {
  let opened: HTMLDetailsElement[] = [];
  const change = (isPrint: boolean): void => {
    opened.forEach((details) => (details.open = false));
    opened = isPrint ? [...root.querySelectorAll<HTMLDetailsElement>("details:not([open])")] : [];
    opened.forEach((details) => (details.open = true));
  };
  matchMedia("print").addEventListener("change", ({ matches }) => change(matches));
}

void start();
