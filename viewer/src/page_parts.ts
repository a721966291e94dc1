/** Puts a page together: what a report and `dwell view` have in common. */

import type { Chart } from "./chart.ts";
import { overviewDetail } from "./detail.ts";
import { element, type Child } from "./dom.ts";
import { MapState } from "./map/memory_map.ts";
import { countTimesIn } from "./format.ts";
import type { Page, RunPage } from "./page.ts";
import { themeChoice } from "./theme.ts";
import { TimeWindow, type Span } from "./time_window.ts";
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
export const RUN_VIEWS: readonly RunView[] = [
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
export interface Handle {
  page: Page;
  charts: Map<string, Chart>;
  scene: (name: string) => object | undefined;
}

declare global {
  /** undefined where no page is shown; without a value it would be the element of that id. */
  var dwell: Handle | undefined;
}

export type SectionsOfRun = (run: RunPage, add: AddChart) => (HTMLElement | null)[];

/** Where a page is shown decides what stands around its sections. */
export interface Surroundings {
  /** Stands above the title. */
  above: Child[];
  sectionsOfRun: SectionsOfRun;
  /** Address of a section. */
  linkTo: (section: string) => string;
}

const IN_A_FILE: Surroundings = {
  above: [],
  sectionsOfRun: (run, add) => {
    const context = { run, window: new TimeWindow(wholeOf(run)), detail: overviewDetail(run), mapState: new MapState(), add };
    return RUN_VIEWS.map((view) => view(context));
  },
  linkTo: (section) => `#${section}`,
};

export function wholeOf({ timeline }: RunPage): Span {
  return { begin_s: 0, end_s: timeline.end_s || 1 };
}

export function showPage(root: HTMLElement, page: Page, around: Surroundings = IN_A_FILE): Handle {
  const charts = new Map<string, Chart>();
  const add: AddChart = (chart) => {
    charts.set(chart.name, chart);
    return chart.section;
  };
  // Runs that are compared may have different clocks; then each second stands for itself.
  const units = new Set(page.runs.map((run) => run.time_unit));
  countTimesIn(units.size === 1 ? page.runs[0].time_unit : null);
  const sections = [...sectionsOf(page, add, around.sectionsOfRun), helpView()].filter((each) => each !== null);
  root.replaceChildren(header(page, sections, around), ...sections, element("footer", {}, `Written by ${page.written_by}.`));
  // Charts are as wide as their place in the document, so they are drawn after they have one.
  charts.forEach((chart) => void chart.drawing);
  return { page, charts, scene: (name) => charts.get(name)?.scene };
}

function sectionsOf(page: Page, add: AddChart, sectionsOfRun: SectionsOfRun): (HTMLElement | null)[] {
  if (page.experiment !== null) {
    return experimentSections(page.experiment, add);
  }
  if (page.comparison !== null) {
    return comparisonSections(page.comparison, page.runs, add);
  }
  return page.runs.flatMap((run) => sectionsOfRun(run, add));
}

function header(page: Page, sections: HTMLElement[], { above, linkTo }: Surroundings): HTMLElement {
  const links = sections.map((each) => element("a", { href: linkTo(each.id) }, each.querySelector("h2")?.textContent ?? each.id));
  return element(
    "header",
    {},
    ...above,
    masthead(page.title),
    page.kind === "run" && page.runs.length === 1 ? facts(page.runs[0]) : null,
    element("nav", { class: "contents", "aria-label": "Contents" }, ...links),
  );
}

/** The title of a page, and the choice of colours. */
export function masthead(title: string): HTMLElement {
  return element("div", { class: "masthead" }, element("h1", {}, unbroken(title)), themeChoice());
}

/** A line never ends between a number and its unit. */
export function unbroken(title: string): string {
  return title.replace(/(\d) (?=\p{L})/gu, "$1\u00a0");
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

/**
 * Paper cannot be clicked: everything is opened for it, and closed again after. Browsers that style the content of `details` open
 * it by the style sheet: what a script changes while a page is printed comes too late for the number of sheets.
 */
export function openForPrint(root: HTMLElement): void {
  if (CSS.supports("selector(::details-content)")) {
    return;
  }
  let opened: HTMLDetailsElement[] = [];
  const change = (isPrint: boolean): void => {
    opened.forEach((details) => (details.open = false));
    opened = isPrint ? [...root.querySelectorAll<HTMLDetailsElement>("details:not([open])")] : [];
    opened.forEach((details) => (details.open = true));
  };
  matchMedia("print").addEventListener("change", ({ matches }) => change(matches));
}

/** Says that there is nothing to show, and why. */
export function failure(text: string): HTMLElement {
  return element("p", { class: "failure", role: "alert" }, text);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
