/** The data of a chart as a table, and a table as CSV. */

export type Cell = string | number | boolean | null;

export interface Table {
  columns: string[];
  rows: Cell[][];
}

/** What a spreadsheet takes for the beginning of a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * A field by RFC 4180. Names come from recorded programs, so text that a spreadsheet would compute gets an apostrophe;
 * numbers, which may be negative, stay as they are.
 */
export function field(cell: Cell): string {
  if (cell === null) {
    return "";
  }
  if (typeof cell !== "string") {
    return String(cell);
  }
  const text = FORMULA.test(cell) ? "'" + cell : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(table: Table): string {
  return [table.columns, ...table.rows].map((row) => row.map(field).join(",") + "\r\n").join("");
}
