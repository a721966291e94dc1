/** Lives of the KV cache: positions of the sequence over time. */

import { leftAxis, linear, numberTicks, timeAxis, verticalTicks, type Plot, type Scale } from "../axes.ts";
import { binAt, binBegin, binsIn, binsOf, type Bins } from "../bins.ts";
import type { Chart, Drawing } from "../chart.ts";
import type { Rgb } from "../colours.ts";
import type { Table } from "../csv.ts";
import { choice, element, section } from "../dom.ts";
import { bytes, count, counted, duration, ratio } from "../format.ts";
import { cachedCss, fillCell, heatLegend, heatScale, LEGEND_HEIGHT, shade, tint, type HeatScale } from "../heat.ts";
import { picture, rect, text } from "../mark.ts";
import type { KvLayerMap, KvMap, RunPage } from "../page.ts";
import { timeChart, type Reading } from "../time_chart.ts";
import type { Span, TimeWindow } from "../time_window.ts";
import type { RunView } from "../view.ts";
import { axisWidth } from "./timeline.ts";

type Value = "resident_bytes" | "cell_reads";

const ALL_LAYERS = "all";
const HEIGHT = 300;
const TOP = 18;
const BOTTOM = 34;
const VALUES = [
  ["resident_bytes", "Bytes held"],
  ["cell_reads", "Reads"],
] as const;

/** The table counts the reads of a block and does not time them. */
const SPREAD_READS = "reads, spread evenly over each life";

/** Cells of one layer or the sum of all, as a full grid: `row * bins + bin`. */
export interface KvGrid {
  resident_bytes: Float64Array;
  cell_reads: Float64Array;
}

type KvCounts = Pick<KvLayerMap, "lives" | "evicted" | "reads">;

export interface KvScene extends KvCounts {
  window: Span;
  layer: string;
  value: Value;
  positions_per_row: number;
  rows: number;
  cells: { first_position: number[]; begin_s: number[]; end_s: number[]; resident_bytes: number[]; cell_reads: number[] };
  scale: HeatScale;
}

export function kvGrid(map: KvMap, layers: readonly KvLayerMap[]): KvGrid {
  const grid = { resident_bytes: new Float64Array(map.rows * map.bins), cell_reads: new Float64Array(map.rows * map.bins) };
  for (const layer of layers) {
    layer.cell.forEach((cell, at) => {
      grid.resident_bytes[cell] += layer.resident_bytes[at];
      grid.cell_reads[cell] += layer.cell_reads[at];
    });
  }
  return grid;
}

export function kvLegendTitle(value: Value, cellTitle: string): string {
  return value === "resident_bytes"
    ? `Bytes held, mean per cell of ${cellTitle}`
    : `${SPREAD_READS[0].toUpperCase()}${SPREAD_READS.slice(1)}; cells of ${cellTitle}, logarithmic`;
}

export class KvLives {
  layer = ALL_LAYERS;
  value: Value = "resident_bytes";
  hoveredRow: number | null = null;
  readonly bins: Bins;
  #grid: KvGrid;

  constructor(
    readonly map: KvMap,
    begin_ns: number,
  ) {
    this.bins = binsOf(map, begin_ns);
    this.#grid = kvGrid(map, map.layers);
  }

  get chosen(): KvLayerMap[] {
    return this.map.layers.filter((layer) => this.layer === ALL_LAYERS || layerKey(layer) === this.layer);
  }

  get counts(): KvCounts {
    const sum = (key: keyof KvCounts): number => this.chosen.reduce((all, layer) => all + layer[key], 0);
    return { lives: sum("lives"), evicted: sum("evicted"), reads: sum("reads") };
  }

  choose(layer: string): void {
    this.layer = layer;
    this.#grid = kvGrid(this.map, this.chosen);
  }

  draw(window: Span, width: number): Drawing<KvScene> {
    const left = axisWidth(width);
    const plot: Plot = { left, top: TOP, width: width - left, height: HEIGHT };
    const x = linear([window.begin_s, window.end_s], [0, plot.width]);
    const positions = this.map.rows * this.map.positions_per_row;
    const y = linear([0, positions], [plot.top + plot.height, plot.top]);
    const isBytes = this.value === "resident_bytes";
    const scale = heatScale(this.#grid[this.value], !isBytes);
    const scene = this.scene(window, scale);
    const cellTitle = `${counted(this.map.positions_per_row, "position")} × ${duration(this.bins.length_s)}`;
    const bar = { title: isBytes ? "held" : "read", fill: fillOf(this.value) };
    return {
      scene,
      svg: picture(
        width,
        TOP + HEIGHT + BOTTOM + LEGEND_HEIGHT - 20,
        text(0, 10, "Position in the sequence"),
        ...timeAxis(plot, (time_s) => plot.left + x(time_s), window.begin_s, window.end_s, true),
        ...leftAxis(plot, y, numberTicks(0, positions, verticalTicks(plot) / 2), true),
        rect(plot.left, plot.top, plot.width, plot.height, { fill: "none", stroke: "var(--grid)" }),
        ...heatLegend(
          { ...plot, left: 0, width, top: TOP + HEIGHT + BOTTOM },
          scale,
          isBytes ? "bytes" : "count",
          kvLegendTitle(this.value, cellTitle),
          [bar],
        ),
      ),
      plot,
      gist: gist(scene),
      table: () => table(scene),
      raster: { paint: (context, colour, pixelRatio) => this.paint(context, colour, pixelRatio, scale, x, window) },
    };
  }

  scene(window: Span, scale: HeatScale): KvScene {
    const { map, bins } = this;
    const cells: KvScene["cells"] = { first_position: [], begin_s: [], end_s: [], resident_bytes: [], cell_reads: [] };
    this.forEachCell(window, (row, bin, cell) => {
      cells.first_position.push(row * map.positions_per_row);
      cells.begin_s.push(binBegin(bins, bin));
      cells.end_s.push(binBegin(bins, bin + 1));
      cells.resident_bytes.push(this.#grid.resident_bytes[cell]);
      cells.cell_reads.push(this.#grid.cell_reads[cell]);
    });
    const { positions_per_row, rows } = map;
    return { window, layer: this.layer, value: this.value, positions_per_row, rows, cells, scale, ...this.counts };
  }

  /** Cells with anything in them of the bins that are shown. */
  forEachCell(window: Span, act: (row: number, bin: number, cell: number) => void): void {
    const range = binsIn(this.bins, window);
    for (let row = 0; row < this.map.rows; row += 1) {
      for (let bin = range.from; bin < range.to; bin += 1) {
        const cell = row * this.map.bins + bin;
        if (this.#grid.resident_bytes[cell] > 0 || this.#grid.cell_reads[cell] > 0) {
          act(row, bin, cell);
        }
      }
    }
  }

  paint(
    context: CanvasRenderingContext2D,
    colour: (name: string) => Rgb,
    pixelRatio: number,
    scale: HeatScale,
    x: Scale,
    window: Span,
  ): void {
    const [paper, full] = [colour("--paper"), colour(fillOf(this.value).slice("var(".length, -1))];
    const fill = cachedCss((darkness) => tint(paper, full, darkness));
    const width = context.canvas.width / pixelRatio;
    context.fillStyle = fill(0, 0);
    fillCell(context, pixelRatio, 0, width, 0, HEIGHT);
    const rowHeight = HEIGHT / this.map.rows;
    this.forEachCell(window, (row, bin, cell) => {
      context.fillStyle = fill(shade(this.#grid[this.value][cell], scale), 0);
      const bottom = HEIGHT - row * rowHeight;
      fillCell(context, pixelRatio, x(binBegin(this.bins, bin)), x(binBegin(this.bins, bin + 1)), bottom - rowHeight, bottom);
    });
  }

  hover(y: number): void {
    const row = Math.floor(((TOP + HEIGHT - y) / HEIGHT) * this.map.rows);
    this.hoveredRow = row >= 0 && row < this.map.rows ? row : null;
  }

  read(at_s: number | null): Reading[] {
    const bin = at_s === null ? null : binAt(this.bins, at_s);
    const cell = bin === null || this.hoveredRow === null ? null : this.hoveredRow * this.map.bins + bin;
    const first = (this.hoveredRow ?? 0) * this.map.positions_per_row;
    const positions = this.hoveredRow === null ? "–" : `${count(first)} to ${count(first + this.map.positions_per_row - 1)}`;
    const group = "In this cell";
    return [
      { group: "Positions", label: "", value: positions, colour: null },
      { group, label: "held", value: bytes(cell === null ? null : this.#grid.resident_bytes[cell]), colour: null },
      { group, label: SPREAD_READS, value: cell === null ? "–" : ratio(this.#grid.cell_reads[cell]), colour: null },
    ];
  }
}

export const kvView: RunView = ({ run, window, add }) =>
  run.overview.kv === null
    ? null
    : section(
        "kv",
        "KV cache lives",
        "How long does the KV cache keep the keys and values of each position? A row is filled from the time it is written until it is overwritten or evicted.",
        add(kvChart(run, run.overview.kv, window)),
      );

function kvChart(run: RunPage, map: KvMap, window: TimeWindow): Chart<KvScene> {
  const lives = new KvLives(map, run.timeline.begin_ns);
  const chart = timeChart({
    name: "kv",
    title: "KV cache lives",
    window,
    draw: (width) => lives.draw(window.shown, width),
    read: (at_s) => lives.read(at_s),
  });
  const counts = element("p", { class: "counts" });
  const update = (): void => {
    counts.textContent = countWords(lives.counts);
  };
  chart.frame.addEventListener("pointermove", (event) => lives.hover(chart.locate(event).y), { capture: true });
  chart.frame.addEventListener("pointerleave", () => (lives.hoveredRow = null), { capture: true });
  chart.controls.prepend(
    layerSelect(map, (layer) => {
      lives.choose(layer);
      chart.redraw();
      update();
    }),
    choice("What is coloured", VALUES, lives.value, (value) => {
      lives.value = value;
      chart.redraw();
    }),
  );
  chart.frame.before(counts);
  update();
  return chart;
}

function layerSelect(map: KvMap, choose: (layer: string) => void): HTMLElement {
  const options = map.layers.map((layer) =>
    element("option", { value: layerKey(layer) }, layer.layer === null ? "no layer" : `Layer ${layer.layer}`),
  );
  const select = element("select", {}, element("option", { value: ALL_LAYERS }, "All layers"), ...options);
  select.addEventListener("change", () => choose(select.value));
  return element("label", {}, "Show ", select);
}

function layerKey(layer: KvLayerMap): string {
  return layer.layer === null ? "none" : String(layer.layer);
}

function fillOf(value: Value): string {
  return value === "resident_bytes" ? "var(--kv_cache)" : "var(--read)";
}

function countWords({ lives, evicted, reads }: KvCounts): string {
  return `${counted(lives, "block")} written, ${count(evicted)} evicted or overwritten, read ${count(reads)} times.`;
}

function gist(scene: KvScene): string {
  return `KV cache of ${scene.layer === ALL_LAYERS ? "all layers" : `layer ${scene.layer}`}: ${countWords(scene)}`;
}

function table({ cells }: KvScene): Table {
  const columns = ["first_position", "begin_s", "end_s", "resident_bytes", "cell_reads"] as const;
  return { columns: [...columns], rows: cells.begin_s.map((_, at) => columns.map((column) => cells[column][at])) };
}
