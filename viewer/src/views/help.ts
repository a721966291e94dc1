/** How to read the page: the words that it uses. */

import { element, section } from "../dom.ts";
import { GESTURE_HELP } from "../gestures.ts";

export const WORDS: readonly (readonly [string, string])[] = [
  [
    "Life",
    "A byte lives from a store until the next store to the same place. A byte that is rewritten has many lives, and each counts.",
  ],
  [
    "Required retention",
    "From a store to the last load before the next store: how long a memory has to keep the data. “> 4 s” is a lower bound and no finding: it is as long as the run, which ended while the data was still needed. A longer run may find a longer time; “< 31 µs” is below the time resolution.",
  ],
  ["Residency", "From a store to the next store, or to the end of the allocation: how long the data is there, needed or not."],
  [
    "Not ended (censored)",
    "A life that went on when the trace ended. The curves are Kaplan–Meier estimates, which count such a life among those at risk until it was last seen; bands are 95 % intervals. A ring at the end of a curve means that data was still alive.",
  ],
  ["Write-once ratio", "Share of the stored bytes that were stored exactly once."],
  [
    "Managed-retention memory",
    "Memory that keeps data for a limited time and should be written rarely. The high and medium classes ask two things: whether a large enough share of the stored data stays for the retention of the class before it is stored again, and whether the data is needed for at least that long. The class is a rule of thumb: it knows nothing of bandwidth or of the technology’s own retention time.",
  ],
  ["Basis", "How a number was obtained: exact (every access was seen), page (known to the 4 KiB page), sampled, or inferred."],
  ["Step", "One computation of the model: a prompt, or one token of each sequence."],
  [
    "Zoom",
    GESTURE_HELP +
      " In the memory map, click a row to look inside, or use ↑ ↓, Enter and Escape. The timeline, the memory map and the KV cache share one time window.",
  ],
  ["Files", "CSV saves the numbers of a chart as they are drawn, unrounded; SVG saves the picture."],
];

export function helpView(): HTMLElement {
  const list = element(
    "dl",
    { class: "help" },
    ...WORDS.map(([word, meaning]) => element("div", {}, element("dt", {}, word), element("dd", {}, meaning))),
  );
  return section("help", "How to read this page", null, list);
}
