/** Bytes by operation. */

import { max, sum } from "d3-array";

import { linear, type Plot, type Scale } from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { bytes } from "../format.ts";
import { fitted, legend } from "../legend.ts";
import { picture, rect, text, titled, type Mark } from "../mark.ts";
import type { Operation, RunPage } from "../page.ts";

export interface OperationsScene {
  /** Those that are drawn; the CSV has all. */
  operations: Operation[];
  hidden: Operation[];
}

const ROW = 22;
const MOST_ROWS = 16;
const NOTE = 22;

export function operationsChart(run: RunPage): Chart<OperationsScene> {
  const { operations } = run.overview;
  const scene = { operations: operations.slice(0, MOST_ROWS), hidden: operations.slice(MOST_ROWS) };
  return new Chart("operations", "Bytes by operation", (width) => draw(scene, width));
}

function draw(scene: OperationsScene, width: number): Drawing<OperationsScene> {
  const left = width < 560 ? 96 : 150;
  const numbers = width < 560 ? 70 : 170;
  const names = legend(
    [
      { title: "read", style: { fill: "var(--read)" }, isLine: false },
      { title: "written", style: { fill: "var(--written)" }, isLine: false },
    ],
    left,
    0,
    width - left,
  );
  const plot: Plot = { left, top: names.height + 4, width: width - left - numbers, height: scene.operations.length * ROW };
  const x = linear([0, max(scene.operations, bothBytes) || 1], [0, plot.width]);
  const note =
    scene.hidden.length === 0
      ? []
      : [
          text(
            left,
            plot.top + plot.height + 16,
            `${scene.hidden.length} more with ${bytes(sum(scene.hidden, bothBytes))} are in the CSV file`,
          ),
        ];
  return {
    scene,
    svg: picture(
      width,
      plot.top + plot.height + NOTE,
      ...names.marks,
      ...scene.operations.flatMap((operation, at) => drawRow(operation, plot, at, x, numbers)),
      ...note,
    ),
    plot,
    gist: `Operations by bytes: ${scene.operations
      .slice(0, 5)
      .map((operation) => `${nameOf(operation)} ${bytes(bothBytes(operation))}`)
      .join(", ")}.`,
    table: () => ({
      columns: ["operation", "rows", "read_bytes", "written_bytes"],
      rows: [...scene.operations, ...scene.hidden].map((each) => [each.symbol, each.rows, each.read_bytes, each.written_bytes]),
    }),
  };
}

function drawRow(operation: Operation, plot: Plot, at: number, x: Scale, numbers: number): Mark[] {
  const top = plot.top + at * ROW;
  const read = x(operation.read_bytes);
  const words = `${bytes(operation.read_bytes)} read, ${bytes(operation.written_bytes)} written`;
  const end = plot.left + x(bothBytes(operation));
  return [
    titled(
      text(plot.left - 8, top + 14, fitted(nameOf(operation), plot.left - 8), { "text-anchor": "end", fill: "var(--ink)" }),
      nameOf(operation),
    ),
    titled(rect(plot.left, top + 3, read, ROW - 8, { fill: "var(--read)" }), words),
    titled(rect(plot.left + read, top + 3, end - plot.left - read, ROW - 8, { fill: "var(--written)" }), words),
    text(
      end + 6,
      top + 14,
      numbers > 100 ? `${bytes(operation.read_bytes)} / ${bytes(operation.written_bytes)}` : bytes(bothBytes(operation)),
    ),
  ];
}

function nameOf({ symbol }: Operation): string {
  return symbol === "" ? "all others" : symbol;
}

function bothBytes({ read_bytes, written_bytes }: Operation): number {
  return read_bytes + written_bytes;
}
