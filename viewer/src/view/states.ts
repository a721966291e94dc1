/** How far a run or an experiment has come, in words. */

import { element } from "../dom.ts";
import type { EntryState } from "./api.ts";

interface StateWords {
  title: string;
  meaning: string;
  /** What it looks like: `live` has a dot, `bad` and `note` the colours of problems and notes. */
  look: "plain" | "live" | "note" | "bad";
}

const WORDS: Record<EntryState, StateWords> = {
  complete: { title: "Complete", meaning: "Finished, and nothing is missing.", look: "plain" },
  partial: { title: "Partial", meaning: "Finished, but some of its data is missing.", look: "note" },
  recording: { title: "Recording", meaning: "dwell is recording it now.", look: "live" },
  building: { title: "Building", meaning: "The recording has ended, and dwell is writing its tables.", look: "live" },
  failed: { title: "Failed", meaning: "Ended, and some of its runs failed.", look: "bad" },
  killed: {
    title: "Killed",
    meaning: "dwell ended before the run was finished. `dwell recover` finishes it.",
    look: "bad",
  },
  damaged: { title: "Damaged", meaning: "One of its files cannot be read.", look: "bad" },
  foreign: { title: "Foreign", meaning: "Another program wrote it.", look: "plain" },
};

/** A state that will change without anybody doing anything. */
export function isUnderWay(state: string): boolean {
  return state === "recording" || state === "building";
}

export function stateTitle(state: EntryState): string {
  return wordsOf(state).title;
}

/** The word, with a dot before what is under way. */
export function stateMark(state: EntryState): HTMLElement {
  const { title, meaning, look } = wordsOf(state);
  return element(
    "span",
    { class: `state state-${look}`, title: meaning },
    look === "live" ? element("span", { class: "dot", "aria-hidden": "true" }) : null,
    title,
  );
}

/** A later version may know other states. */
function wordsOf(state: EntryState): StateWords {
  return WORDS[state] ?? { title: state, meaning: "", look: "plain" };
}
