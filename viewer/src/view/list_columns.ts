/** The columns of the list. */

import { element } from "../dom.ts";
import { bytes, count, ratio } from "../format.ts";
import type { ExperimentEntry, RunEntry } from "./api.ts";
import { NOTHING, type Column } from "./entry_table.ts";
import { formatRoute, runLink } from "./routes.ts";
import { stateMark, stateTitle } from "./states.ts";
import { trustWords } from "./trust_words.ts";

/** What the list knows about the runs that are chosen for a comparison. */
export interface Choosing {
  isChosen: (path: string) => boolean;
  choose: (path: string, isChosen: boolean) => void;
}

type Optional<Entry> = Partial<Column<Entry>> & Pick<Column<Entry>, "name" | "title" | "value" | "cell">;

function column<Entry>(given: Optional<Entry>): Column<Entry> {
  return { meaning: given.title, isGreatestFirst: false, ...given };
}

/** The name of an experiment that has this id. */
export type ExperimentName = (id: string) => string;

export function runColumns(choosing: Choosing, nameOf: ExperimentName): Column<RunEntry>[] {
  return [
    column({ name: "chosen", title: "Select", value: null, cell: (run) => checkbox(run, choosing) }),
    column({ name: "run", title: "Run", value: ({ run_id }) => run_id, cell: runName }),
    column({ name: "state", title: "State", value: ({ state }) => stateTitle(state), cell: ({ state }) => stateMark(state) }),
    column({ name: "model", title: "Model", value: ({ model_id }) => model_id, cell: ({ model_id }) => model_id }),
    column({ name: "engine", title: "Engine", value: ({ engine }) => engine, cell: ({ engine }) => engine ?? NOTHING }),
    startedColumn(),
    column({
      name: "tokens",
      title: "Tokens",
      meaning: "Tokens of the prompts and tokens generated; sorted by those generated",
      isGreatestFirst: true,
      value: ({ generated_tokens }) => generated_tokens,
      cell: tokens,
    }),
    column({
      name: "speed",
      title: "Tokens/s",
      meaning: "Tokens per second in decode steps",
      isGreatestFirst: true,
      value: (run) => run.decode_tokens_per_s,
      cell: ({ decode_tokens_per_s: speed }) => number(ratio(speed)),
    }),
    column({
      name: "accesses",
      title: "Accesses",
      meaning: "Loads and stores that were recorded",
      isGreatestFirst: true,
      value: ({ rows }) => rows,
      cell: ({ rows }) => number(count(rows)),
    }),
    column({
      name: "size",
      title: "Size",
      meaning: "Bytes of all files of the run",
      isGreatestFirst: true,
      value: ({ size_bytes }) => size_bytes,
      cell: ({ size_bytes }) => number(bytes(size_bytes)),
    }),
    column({
      name: "trust",
      title: "Trust",
      meaning:
        "Whether something else disturbed the machine, so that times may be too long, and whether the trace holds what its collector is expected to give",
      value: trustWords,
      cell: (run) => trustWords(run) ?? NOTHING,
    }),
    column({
      name: "experiment",
      title: "Experiment",
      value: ({ experiment_id: id }) => (id === null ? null : nameOf(id)),
      cell: ({ experiment_id: id }) => (id === null ? NOTHING : linkToExperiment(id, nameOf(id))),
    }),
  ];
}

export const EXPERIMENT_COLUMNS: readonly Column<ExperimentEntry>[] = [
  column({
    name: "name",
    title: "Experiment",
    value: ({ name, experiment_id }) => name ?? experiment_id,
    cell: (entry) => linkToExperiment(entry.experiment_id, entry.name ?? entry.experiment_id),
  }),
  column({ name: "state", title: "State", value: ({ state }) => stateTitle(state), cell: ({ state }) => stateMark(state) }),
  column({
    name: "runs",
    title: "Runs",
    meaning: "Runs that are finished, of those that are planned",
    isGreatestFirst: true,
    value: ({ finished_runs }) => finished_runs,
    cell: ({ finished_runs, planned_runs }) =>
      number(planned_runs === null ? count(finished_runs) : `${count(finished_runs)} of ${count(planned_runs)}`),
  }),
  startedColumn(),
  column({ name: "id", title: "Id", value: ({ experiment_id }) => experiment_id, cell: ({ experiment_id }) => experiment_id }),
];

function startedColumn<Entry extends { started_at_utc: string }>(): Column<Entry> {
  return column({
    name: "started",
    title: "Started (UTC)",
    isGreatestFirst: true,
    value: ({ started_at_utc }) => started_at_utc,
    cell: ({ started_at_utc }) =>
      element("time", { class: "number", datetime: started_at_utc }, started_at_utc.slice(0, 16).replace("T", " ")),
  });
}

function checkbox({ path, run_id }: RunEntry, { isChosen, choose }: Choosing): HTMLElement {
  const box = element("input", { type: "checkbox", "aria-label": `Select ${run_id}`, checked: isChosen(path) });
  box.addEventListener("change", () => choose(path, box.checked));
  return box;
}

function runName({ path, run_id, problem }: RunEntry): HTMLElement {
  const link = element("a", { href: runLink(path), title: path }, run_id);
  return element("span", {}, link, problem === null ? null : element("span", { class: "problem" }, problem));
}

function tokens({ prompt_tokens, generated_tokens }: RunEntry): HTMLElement {
  const isUnknown = prompt_tokens === null && generated_tokens === null;
  return number(isUnknown ? NOTHING : `${count(prompt_tokens)} + ${count(generated_tokens)}`);
}

function linkToExperiment(id: string, title: string): HTMLElement {
  return element("a", { href: formatRoute({ kind: "experiment", id, section: "" }) }, title);
}

function number(text: string): HTMLElement {
  return element("span", { class: "number" }, text);
}
