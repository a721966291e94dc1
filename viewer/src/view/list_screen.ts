/** The list of runs and experiments. */

import { button, element, section } from "../dom.ts";
import { count, counted } from "../format.ts";
import { failure, masthead, messageOf } from "../page_parts.ts";
import type { ExperimentEntry, ResultsList, RunEntry } from "./api.ts";
import { ApiError, getResults } from "./client.ts";
import { EntryTable } from "./entry_table.ts";
import { EXPERIMENT_COLUMNS, runColumns } from "./list_columns.ts";
import { experimentText, found, runText } from "./list_entries.ts";
import { loading, problem } from "./messages.ts";
import { Poller } from "./poller.ts";
import { ONLY_RUN, type ListRoute, type Route } from "./routes.ts";
import type { Screen, Stage } from "./screen.ts";
import { isUnderWay } from "./states.ts";

/** The list is asked for again after so long while anything is recorded, or nothing is there yet. */
const REFRESH_S = 3;

/** Paths of the runs that are selected; the way back from a comparison finds them. */
const chosen = new Set<string>();

export class ListScreen implements Screen {
  readonly #poller: Poller;
  readonly #runs: EntryTable<RunEntry>;
  readonly #experiments: EntryTable<ExperimentEntry>;
  readonly #find: HTMLInputElement;
  readonly #counts = element("p", { class: "counts", role: "status" });
  readonly #lost = element("div");
  readonly #compare: HTMLElement;
  #route: ListRoute;
  #list: ResultsList | null = null;
  #said = "";

  constructor(
    readonly stage: Stage,
    route: ListRoute,
  ) {
    this.#route = route;
    this.#find = element("input", { type: "search", value: route.find, placeholder: "model, engine, run, state, experiment" });
    this.#find.addEventListener("input", () => this.#filter(this.#find.value));
    this.#compare = element("div", { class: "compare", role: "region", "aria-label": "Comparison", hidden: true });
    const columns = runColumns(
      {
        isChosen: (path) => chosen.has(path),
        choose: (path, isChosen) => this.#choose(path, isChosen),
      },
      (id) => this.#experimentName(id),
    );
    this.#runs = new EntryTable("Runs", columns, route, (sorting) => this.#remember({ ...this.#route, ...sorting }));
    this.#experiments = new EntryTable("Experiments", EXPERIMENT_COLUMNS, { sort: "", isDescending: false }, () => undefined);
    this.#poller = new Poller({
      ask: (signal) => this.#ask(signal),
      isRetried: (error) => error instanceof ApiError && error.isPassing,
      failed: (error, retry_s) => this.#failed(error, retry_s),
    });
    stage.root.replaceChildren(loading("the list of results"));
    stage.setTitle("Results");
    void this.#poller.now();
  }

  follow(route: Route): boolean {
    if (route.kind !== "list") {
      return false;
    }
    this.#route = route;
    this.#find.value = route.find;
    this.#runs.sorting = route;
    this.#showEntries();
    return true;
  }

  refresh(): void {
    void this.#poller.now();
  }

  stop(): void {
    this.#poller.stop();
  }

  async #ask(signal: AbortSignal): Promise<number | null> {
    const list = await getResults(signal);
    const said = JSON.stringify(list);
    this.#lost.replaceChildren();
    if (list.single_run) {
      this.stage.redirect({ kind: "run", path: ONLY_RUN, span: null, section: "" });
      return null;
    }
    // What did not change stays as it is, with the selection of text and the place of the pointer.
    if (said !== this.#said) {
      this.#said = said;
      this.#show(list);
    }
    const isChanging = isEmpty(list) || [...list.runs, ...list.experiments].some(({ state }) => isUnderWay(state));
    return isChanging ? REFRESH_S : null;
  }

  #show(list: ResultsList): void {
    const isFirst = this.#list === null;
    const isSameFrame = this.#list !== null && frameOf(this.#list) === frameOf(list);
    this.#list = list;
    const paths = new Set(list.runs.map(({ path }) => path));
    [...chosen].filter((path) => !paths.has(path)).forEach((path) => chosen.delete(path));
    if (!isSameFrame) {
      this.#frame(list);
    }
    this.#showEntries();
    this.#showChosen();
    if (isFirst) {
      this.stage.ready("");
    }
  }

  /** What stands around the tables. */
  #frame(list: ResultsList): void {
    this.stage.setTitle(list.root);
    const label = element("label", { class: "find" }, "Filter ", this.#find);
    const experiments =
      list.experiments.length === 0 ? null : section("experiments", "Experiments", null, this.#experiments.element);
    const lead = "Click a run to open it. Select two or more to compare them.";
    const parts = isEmpty(list)
      ? [nothingYet(list.root)]
      : [label, this.#counts, experiments, section("runs", "Runs", lead, this.#runs.element), this.#compare];
    this.stage.root.replaceChildren(
      element("header", {}, masthead(`Results in “${list.root}”`)),
      this.#lost,
      ...parts.filter((part) => part !== null),
      element("footer", {}, `Served by ${list.written_by}.`),
    );
  }

  #filter(find: string): void {
    this.#remember({ ...this.#route, find });
    this.#showEntries();
  }

  #remember(route: ListRoute): void {
    this.#route = route;
    this.stage.replaceRoute(route);
  }

  #showEntries(): void {
    if (this.#list === null) {
      return;
    }
    const { find } = this.#route;
    const runs = found(this.#list.runs, find, (run) => runText(run, (id) => this.#experimentName(id)));
    const experiments = found(this.#list.experiments, find, experimentText);
    this.#runs.show(runs);
    this.#experiments.show(experiments);
    const parts = [partOf(runs.length, this.#list.runs.length, "run")];
    if (this.#list.experiments.length > 0) {
      parts.push(partOf(experiments.length, this.#list.experiments.length, "experiment"));
    }
    this.#counts.textContent = parts.join(", ");
  }

  /** Experiments without a folder of their own have no name. */
  #experimentName(id: string): string {
    return this.#list?.experiments.find(({ experiment_id }) => experiment_id === id)?.name ?? id;
  }

  #choose(path: string, isChosen: boolean): void {
    isChosen ? chosen.add(path) : chosen.delete(path);
    this.#showChosen();
  }

  #showChosen(): void {
    const paths = [...chosen];
    const go = (): void => this.stage.go({ kind: "compare", paths, section: "" });
    this.#compare.hidden = paths.length === 0;
    this.#compare.replaceChildren(
      element("span", { role: "status" }, `${counted(paths.length, "run")} selected`),
      button("Compare", go, { disabled: paths.length < 2, title: paths.length < 2 ? "Select at least two runs" : null }),
      button("Clear", () => this.#clear()),
    );
  }

  #clear(): void {
    chosen.clear();
    this.#showChosen();
    this.#showEntries();
  }

  #failed(error: unknown, retry_s: number | null): void {
    if (this.#list === null) {
      const parts = problem([], "Cannot list the results", error, retry_s, () => this.refresh());
      this.stage.root.replaceChildren(...parts);
      return;
    }
    const again = retry_s === null ? "" : ` Trying again in ${retry_s} s.`;
    this.#lost.replaceChildren(failure(`This list may be out of date. ${messageOf(error)}${again}`));
  }
}

function isEmpty({ runs, experiments }: ResultsList): boolean {
  return runs.length === 0 && experiments.length === 0;
}

/** Lists with the same parts differ in their tables alone. */
function frameOf(list: ResultsList): string {
  return JSON.stringify([list.root, isEmpty(list), list.experiments.length > 0]);
}

function partOf(shown: number, all: number, singular: string): string {
  return shown === all ? counted(all, singular) : `${count(shown)} of ${counted(all, singular)}`;
}

function nothingYet(root: string): HTMLElement {
  return element(
    "p",
    {},
    `There are no runs in “${root}” yet. Record one with `,
    element("code", {}, "dwell run"),
    "; it appears here as soon as it begins.",
  );
}
