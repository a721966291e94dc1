/** The answer, how far to trust it, and the kinds of memory it is about. */

import { element, section } from "../dom.ts";
import type { RunPage } from "../page.ts";
import type { AddChart, RunView } from "../view.ts";
import { regionTable } from "./regions.ts";
import { retentionChart } from "./retention.ts";
import { trustList, trustWords } from "./trust.ts";

export const verdictView: RunView = ({ run, add }) => {
  return section(
    "verdict",
    "Verdict",
    null,
    element("p", { class: "headline" }, run.headline),
    element("p", { class: "answer" }, run.answer),
    element("h3", {}, "How far to trust this", element("span", { class: "tally" }, trustWords(run.trust))),
    trustList(run.trust),
    ...(run.regions.length === 0
      ? []
      : [element("h3", {}, "What each kind of memory needs"), regionTable(run), ...chartOf(run, add)]),
  );
};

/** Without a clock nothing is known of times, and no class is met or missed. */
function chartOf(run: RunPage, add: AddChart): HTMLElement[] {
  return run.time_unit === null ? [add(retentionChart(run).withHeading())] : [];
}
