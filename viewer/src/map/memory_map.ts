/** The memory map as data: what it shows of a window, how it is painted, and what lies under the pointer. */

import { linear, timeAxis, type Plot, type Scale } from "../axes.ts";
import { binAt, binBegin, binsIn, binsOf, type Bins } from "../bins.ts";
import type { Drawing } from "../chart.ts";
import { regionColour, type Rgb } from "../colours.ts";
import type { Cell, Table } from "../csv.ts";
import type { DetailSource } from "../detail.ts";
import { bytes, counted, duration } from "../format.ts";
import {
  blended,
  cachedCss,
  fillCell,
  heatLegend,
  heatScale,
  LEGEND_HEIGHT,
  shade,
  tint,
  type HeatScale,
  type LegendBar,
} from "../heat.ts";
import { fitted } from "../legend.ts";
import { CellIndex, bytesByType, totalOf, type Bytes } from "./cells.ts";
import { DEPTHS, layOut, type MapGroup, type MapPath, type MapRow } from "./layout.ts";
import { picture, rect, text, titled, type Mark } from "../mark.ts";
import type { Place, RunPage, Tiles } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import type { Reading } from "../time_chart.ts";
import type { Span } from "../time_window.ts";

export type Mode = "both" | "read" | "written";

interface MapCells {
  place: number[];
  begin_s: number[];
  end_s: number[];
  read_bytes: number[];
  written_bytes: number[];
}

export interface MapScene {
  window: Span;
  path: MapPath;
  mode: Mode;
  groups: MapGroup[];
  cells: MapCells;
  /** Length of a cell. */
  cell_s: number;
  scale: HeatScale;
  /** Bytes of all cells of the run, whatever is shown. */
  totals: Record<string, Bytes>;
}

const BOTTOM = 34;
const LABEL_PIXELS = 13;
const LEGEND_BARS: Record<Mode, LegendBar[]> = {
  both: [
    { title: "read", fill: "var(--read)" },
    { title: "written", fill: "var(--written)" },
    { title: "both", fill: "var(--both)" },
  ],
  read: [{ title: "read", fill: "var(--read)" }],
  written: [{ title: "written", fill: "var(--written)" }],
};

/** What the reader chose and points at. */
export class MapState {
  path: MapPath = [];
  mode: Mode = "both";
  /** The group that the keyboard is on. */
  selected: number | null = null;
  hovered: MapRow | null = null;
}

export class MemoryMap {
  readonly totals: Record<string, Bytes>;
  groups: MapGroup[] = [];
  #index: CellIndex;

  constructor(
    readonly run: RunPage,
    readonly detail: DetailSource,
    readonly state: MapState,
  ) {
    const { tiles, places } = run.overview;
    this.#index = new CellIndex(tiles, places.length);
    this.totals = Object.fromEntries(bytesByType(tiles, places));
  }

  /** The cells that were drawn last. */
  get index(): CellIndex {
    return this.#index;
  }

  get bins(): Bins {
    return binsOf(this.#index.tiles, this.run.timeline.begin_ns);
  }

  get places(): readonly Place[] {
    return this.run.overview.places;
  }

  titleAt(depth: number, place: Place): string {
    const layer = place.layer === null ? "no layer" : `layer ${place.layer}`;
    return [regionTitle(this.run, place.region_type), layer, place.tensor ?? "all tensors"][depth];
  }

  groupTitle(group: MapGroup): string {
    return this.titleAt(Math.min(this.state.path.length, DEPTHS.length - 1), this.places[group.rows[0].place]);
  }

  draw(window: Span, width: number): Drawing<MapScene> {
    const left = width < 560 ? 100 : this.state.path.length < 2 ? 150 : 220;
    const { groups, height } = layOut(this.places, this.state.path);
    this.groups = groups;
    this.drawFrom(this.detail.tilesFor(window));
    const plot: Plot = { left, top: 4, width: width - left, height };
    const x = linear([window.begin_s, window.end_s], [0, plot.width]);
    const cells = this.cellsIn(window);
    const scale = this.scaleOf(groups);
    const legendPlot = { ...plot, left: 0, width, top: plot.top + height + BOTTOM };
    const legendTitle = `Bytes in ${duration(this.bins.length_s)}, logarithmic`;
    const scene: MapScene = {
      window,
      path: this.state.path,
      mode: this.state.mode,
      groups,
      cells,
      cell_s: this.bins.length_s,
      scale,
      totals: this.totals,
    };
    return {
      scene,
      svg: picture(
        width,
        height + BOTTOM + LEGEND_HEIGHT,
        ...timeAxis(plot, (time_s) => plot.left + x(time_s), window.begin_s, window.end_s, true),
        ...this.labels(groups, plot),
        ...heatLegend(legendPlot, scale, "bytes", legendTitle, LEGEND_BARS[this.state.mode]),
      ),
      plot,
      gist: this.gist(groups),
      table: () => this.table(cells),
      raster: { paint: (context, colour, ratio) => this.paint(context, colour, ratio, cells, groups, scale, x) },
    };
  }

  drawFrom(tiles: Tiles): void {
    if (tiles !== this.#index.tiles) {
      this.#index = new CellIndex(tiles, this.places.length);
    }
  }

  cellsIn(window: Span): MapCells {
    const { bins } = this;
    const range = binsIn(bins, window);
    const cells: MapCells = { place: [], begin_s: [], end_s: [], read_bytes: [], written_bytes: [] };
    for (const { place } of this.groups.flatMap(({ rows }) => rows)) {
      const { begin, end } = this.index.cellsOf(place, range.from, range.to);
      for (let position = begin; position < end; position += 1) {
        const bin = this.index.tiles.bin[position];
        cells.place.push(place);
        cells.begin_s.push(binBegin(bins, bin));
        cells.end_s.push(binBegin(bins, bin + 1));
        cells.read_bytes.push(this.index.tiles.read_bytes[position]);
        cells.written_bytes.push(this.index.tiles.written_bytes[position]);
      }
    }
    return cells;
  }

  /** Of all times, so that a shade means the same while the window moves. */
  scaleOf(groups: MapGroup[]): HeatScale {
    const { tiles } = this.index;
    const { count } = this.bins;
    const values = groups
      .flatMap(({ rows }) => rows)
      .flatMap(({ place }) => {
        const { begin, end } = this.index.cellsOf(place, 0, count);
        const read = this.state.mode === "written" ? [] : tiles.read_bytes.slice(begin, end);
        return this.state.mode === "read" ? read : [...read, ...tiles.written_bytes.slice(begin, end)];
      });
    return heatScale(values, true);
  }

  paint(
    context: CanvasRenderingContext2D,
    colour: (name: string) => Rgb,
    ratio: number,
    cells: MapCells,
    groups: MapGroup[],
    scale: HeatScale,
    x: Scale,
  ): void {
    const [paper, readColour, writtenColour] = [colour("--paper"), colour("--read"), colour("--written")];
    const fill = cachedCss((read, written) => blended(paper, tint(paper, readColour, read), tint(paper, writtenColour, written)));
    const rows = new Map(groups.flatMap((group) => group.rows.map((row) => [row.place, row] as const)));
    context.fillStyle = fill(0, 0);
    groups.forEach((group) => fillCell(context, ratio, 0, context.canvas.width / ratio, group.y, group.y + group.height));
    const { mode } = this.state;
    cells.place.forEach((place, at) => {
      const row = rows.get(place) as MapRow;
      const read = mode === "written" ? 0 : shade(cells.read_bytes[at], scale);
      const written = mode === "read" ? 0 : shade(cells.written_bytes[at], scale);
      if (read + written > 0) {
        context.fillStyle = fill(read, written);
        fillCell(context, ratio, x(cells.begin_s[at]), x(cells.end_s[at]), row.y, row.y + row.height);
      }
    });
  }

  /** The bands beside groups, their frames, and names so seldom that they do not touch. */
  labels(groups: MapGroup[], plot: Plot): Mark[] {
    let free = 0;
    return groups.flatMap((group, at) => {
      const y = plot.top + group.y + Math.min(group.height / 2 + 4, this.state.path.length === 0 ? 14 : Infinity);
      const isNamed = y >= free;
      free = isNamed ? y + LABEL_PIXELS : free;
      return [...this.edges(group, plot, at === this.state.selected), ...(isNamed ? [this.name(group, plot.left - 10, y)] : [])];
    });
  }

  name(group: MapGroup, right: number, y: number): Mark {
    const name = this.groupTitle(group);
    return titled(text(right, y, fitted(name, right, "end"), { "text-anchor": "end", fill: "var(--ink)" }), name);
  }

  /** Bold around the group that the keyboard is on. */
  edges(group: MapGroup, plot: Plot, isSelected: boolean): Mark[] {
    const { region_type } = this.places[group.rows[0].place];
    const top = plot.top + group.y;
    const frame = isSelected
      ? { stroke: "var(--ink)", "stroke-width": 2 }
      : { stroke: "var(--grid)", "stroke-width": this.state.path.length === 0 ? 1 : 0 };
    return [
      rect(plot.left - 5, top, 3, group.height, { fill: regionColour(region_type) }),
      rect(plot.left, top, plot.width, group.height, { fill: "none", ...frame }),
    ];
  }

  gist(groups: MapGroup[]): string {
    const named = groups.slice(0, 8).map((group) => {
      const { read_bytes, written_bytes } = totalOf(group.rows.map(({ place }) => this.places[place]));
      return `${this.groupTitle(group)}: ${bytes(read_bytes)} read, ${bytes(written_bytes)} written`;
    });
    return `Map of ${counted(groups.length, DEPTHS[Math.min(this.state.path.length, 2)])} over time. ${named.join("; ")}.`;
  }

  table(cells: MapCells): Table {
    const rows = cells.place.map((index, at): Cell[] => {
      const { region_type, layer, tensor } = this.places[index];
      return [region_type, layer, tensor, cells.begin_s[at], cells.end_s[at], cells.read_bytes[at], cells.written_bytes[at]];
    });
    return { columns: ["region_type", "layer", "tensor", "begin_s", "end_s", "read_bytes", "written_bytes"], rows };
  }

  /** The row under the pointer, else the group that the keyboard is on. */
  read(at_s: number | null): Reading[] {
    const { hovered, selected } = this.state;
    const chosen = hovered ? [hovered] : selected === null ? [] : (this.groups[selected]?.rows ?? []);
    const places = chosen.map(({ place }) => this.places[place]);
    const bin = at_s === null ? null : binAt(this.bins, at_s);
    const inCell = bin === null || chosen.length === 0 ? null : totalOf(chosen.map(({ place }) => this.index.at(place, bin)));
    const all = chosen.length === 0 ? null : totalOf(places);
    const size = chosen.length === 0 ? null : places.reduce((sum, { size_bytes }) => sum + size_bytes, 0);
    const depth = hovered ? 3 : this.state.path.length + 1;
    const name =
      places.length === 0
        ? "–"
        : [0, 1, 2]
            .slice(0, depth)
            .map((at) => this.titleAt(at, places[0]))
            .join(" · ");
    return [
      reading("Place", "", name),
      reading("Place", "size", bytes(size)),
      ...bothReadings(`In this cell (${duration(this.bins.length_s)})`, inCell),
      ...bothReadings("In the whole run", all),
    ];
  }
}

function reading(group: string, label: string, value: string): Reading {
  return { group, label, value, colour: null };
}

function bothReadings(group: string, sums: Bytes | null): Reading[] {
  return [reading(group, "read", bytes(sums?.read_bytes ?? null)), reading(group, "written", bytes(sums?.written_bytes ?? null))];
}
