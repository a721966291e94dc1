/** Every metric that dwell computed, a line each. */

import type { Cell } from "../csv.ts";
import { element, scrolling, section } from "../dom.ts";
import { inUnit, SCALED_UNITS } from "../format.ts";
import type { MetricsTable } from "../page.ts";
import type { RunView } from "../view.ts";

export const metricsView: RunView = ({ run }) =>
  run.metrics.rows.length === 0
    ? null
    : section(
        "metrics",
        "All metrics",
        null,
        element(
          "details",
          {},
          element(
            "summary",
            { class: "metrics-summary" },
            `${run.metrics.columns.length - 1} metrics by kind of memory, as in metrics.csv`,
          ),
          metricsTable(run.metrics),
        ),
      );

/**
 * metrics.csv has a line per region type and far more columns than fit beside each other, so the table is turned: a line per
 * column, a column per region type.
 */
function metricsTable({ columns, rows }: MetricsTable): HTMLElement {
  const names = rows.map((row) => element("th", { scope: "col" }, String(row[0] ?? "")));
  const lines = columns.slice(1).map((column, at) => {
    const unit = unitOfLine(column.unit);
    const head = element(
      "th",
      { scope: "row", title: column.meaning },
      element("code", {}, column.name),
      unit === "" ? null : element("span", { class: "unit" }, ` ${unit}`),
      withCode(column.meaning),
    );
    return element(
      "tr",
      {},
      head,
      ...rows.map((row) =>
        element("td", { class: "number", title: String(row[at + 1] ?? "") }, shown(row[at + 1] ?? null, column.unit)),
      ),
    );
  });
  const head = element("tr", {}, element("th", { scope: "col" }, columns[0]?.name ?? ""), ...names);
  return scrolling(
    "All metrics",
    element("table", { class: "metrics" }, element("thead", {}, head), element("tbody", {}, ...lines)),
  );
}

/** The unit beside the name of a metric: none where every value has its own. */
export function unitOfLine(unit: string): string {
  return SCALED_UNITS.includes(unit) ? "" : unit;
}

/** The title of a cell has the number as dwell wrote it. Units of one size stand at the beginning of the line. */
function shown(cell: Cell, unit: string): string {
  if (typeof cell === "number") {
    return inUnit(cell, SCALED_UNITS.includes(unit) ? unit : "");
  }
  return cell === null || cell === "" ? "–" : cell === true ? "yes" : cell === false ? "no" : cell;
}

/** Names of values stand between backticks, as in dwell's documentation. */
function withCode(meaning: string): HTMLElement {
  const parts = meaning.split("`").map((part, at) => (at % 2 === 1 ? element("code", {}, part) : part));
  return element("span", { class: "meaning" }, ...parts);
}
