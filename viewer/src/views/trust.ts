/** How far a run can be trusted: statements of dwell, with their reasons. */

import { element } from "../dom.ts";
import { counted } from "../format.ts";
import { icon } from "../icons.ts";
import type { Level, Statement } from "../page.ts";

const WORDS: Record<Level, string> = { good: "good", note: "note", bad: "problem" };
const LEVELS: readonly Level[] = ["bad", "note", "good"];

export function trustList(statements: readonly Statement[]): HTMLElement {
  return element("ul", { class: "trust" }, ...statements.map(statementItem));
}

/** For instance `1 problem, 2 notes, 3 good`. */
export function trustWords(statements: readonly Statement[]): string {
  const counts = LEVELS.map((level) => [level, statements.filter((statement) => statement.level === level).length] as const);
  const words = counts
    .filter(([, number]) => number > 0)
    .map(([level, number]) => counted(number, WORDS[level], level === "good" ? "good" : `${WORDS[level]}s`));
  return words.join(", ");
}

/** The statement opens its reasons where it has any. */
function statementItem({ topic, level, text, reasons }: Statement): HTMLElement {
  const why = element(
    "details",
    {},
    element("summary", {}, text),
    element("ul", {}, ...reasons.map((reason) => element("li", {}, reason))),
  );
  return element(
    "li",
    { class: `level-${level}` },
    element("span", { class: "level" }, icon(level), WORDS[level]),
    element("span", { class: "topic" }, topic.replaceAll("_", " ")),
    element("div", { class: "statement" }, reasons.length === 0 ? element("p", {}, text) : why),
  );
}
