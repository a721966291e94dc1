/** Finds and orders the entries of the list. */

import type { ExperimentEntry, RunEntry } from "./api.ts";
import { stateTitle } from "./states.ts";
import { trustWords } from "./trust_words.ts";

export type SortValue = string | number | null;

/** `run 9` comes before `run 10`. */
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** What the filter of the list looks at. */
export function runText(run: RunEntry, experimentName: (id: string) => string): string {
  const { run_id, path, model_id, engine, experiment_id: id, state, validity, quality } = run;
  const experiment = id === null ? [] : [id, experimentName(id)];
  return textOf([run_id, path, model_id, engine, ...experiment, stateTitle(state), state, trustWords(run), validity, quality]);
}

export function experimentText({ experiment_id, path, name, state }: ExperimentEntry): string {
  return textOf([experiment_id, path, name, stateTitle(state), state]);
}

function textOf(parts: (string | null)[]): string {
  return parts
    .filter((part) => part !== null)
    .join("\n")
    .toLowerCase();
}

/** Entries that have every word of `find` somewhere. */
export function found<Entry>(entries: readonly Entry[], find: string, text: (entry: Entry) => string): Entry[] {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter((entry) => {
    const own = text(entry);
    return words.every((word) => own.includes(word));
  });
}

/** In the order of a value; entries without one come last in either direction. */
export function ordered<Entry>(entries: readonly Entry[], value: (entry: Entry) => SortValue, isDescending: boolean): Entry[] {
  const sign = isDescending ? -1 : 1;
  return entries
    .map((entry) => [entry, value(entry)] as const)
    .sort(([, left], [, right]) =>
      left === null || right === null ? Number(left === null) - Number(right === null) : sign * compared(left, right),
    )
    .map(([entry]) => entry);
}

function compared(left: string | number, right: string | number): number {
  return typeof left === "number" && typeof right === "number" ? left - right : collator.compare(String(left), String(right));
}
