/** Bytes read and written by layer, stacked by region type. */

import { max, sum } from "d3-array";

import type { Plot, Scale } from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { byRegionType, regionColour } from "../colours.ts";
import type { Table } from "../csv.ts";
import { choice, element } from "../dom.ts";
import { brief, bytes, counted, ratio } from "../format.ts";
import { legend } from "../legend.ts";
import { totalOf, type Bytes } from "../map/cells.ts";
import { picture, rect, text, titled, type Mark } from "../mark.ts";
import { mirrored, SIDES } from "../mirrored.ts";
import type { Place, RunPage } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import { axisWidth } from "./timeline.ts";

/** What one region type of one layer moved. */
interface LayerPart extends Bytes {
  region_type: string;
}

export interface LayerBar {
  layer: number | null;
  parts: LayerPart[];
}

export interface LayersScene {
  /** null for all. */
  region_type: string | null;
  layers: LayerBar[];
  /** Memory of no layer, such as embeddings; not drawn beside layers, which it would flatten. */
  outside: LayerPart[];
}

const ALL = "all";

const HEIGHT = 240;
const BOTTOM = 38;
const LABEL_PIXELS = 26;

export function layersChart(run: RunPage): Chart<LayersScene> {
  let region_type: string | null = null;
  const note = element("p", { class: "note" });
  const chart = new Chart("read_write_by_layer", `By layer: ${SIDES}`, (width) => {
    const scene = layersScene(run.overview.places, region_type);
    note.textContent = outsideWords(run, scene);
    return draw(run, scene, width);
  });
  const options = typesOf(run.overview.places).map((type) => [type, regionTitle(run, type)] as const);
  chart.controls.prepend(
    choice("Kind of memory", [[ALL, "All"], ...options], ALL, (chosen) => {
      region_type = chosen === ALL ? null : chosen;
      chart.redraw();
    }),
  );
  chart.section.append(note);
  return chart;
}

export function layersScene(places: readonly Place[], region_type: string | null): LayersScene {
  const own = places.filter((place) => region_type === null || place.region_type === region_type);
  const layers = [...new Set(own.map(({ layer }) => layer))]
    .filter((layer) => layer !== null)
    .sort((left, right) => left - right);
  const bars = layers.map((layer) => ({ layer, parts: partsOf(own.filter((place) => place.layer === layer)) }));
  const outside = partsOf(own.filter(({ layer }) => layer === null));
  return bars.length === 0
    ? { region_type, layers: [{ layer: null, parts: outside }], outside: [] }
    : { region_type, layers: bars, outside };
}

function typesOf(places: readonly { region_type: string }[]): string[] {
  return [...new Set([...places].sort(byRegionType).map(({ region_type }) => region_type))];
}

function partsOf(places: Place[]): LayerPart[] {
  return typesOf(places).map((region_type) => ({
    region_type,
    ...totalOf(places.filter((place) => place.region_type === region_type)),
  }));
}

function draw(run: RunPage, scene: LayersScene, width: number): Drawing<LayersScene> {
  const left = axisWidth(width);
  const types = typesOf(scene.layers.flatMap((bar) => bar.parts));
  const names = legend(
    types.map((type) => ({ title: regionTitle(run, type), style: { fill: regionColour(type) }, isLine: false })),
    left,
    0,
    width - left,
  );
  const plot: Plot = { left, top: names.height + 8, width: width - left, height: HEIGHT };
  const most = (key: keyof Bytes): number => max(scene.layers, (bar) => sum(bar.parts, (part) => part[key])) ?? 0;
  const { up, down, axes, middle } = mirrored(plot, most("read_bytes"), most("written_bytes"));
  return {
    scene,
    svg: picture(
      width,
      plot.top + HEIGHT + BOTTOM,
      ...names.marks,
      ...axes,
      ...scene.layers.flatMap((bar, at) => drawBar(run, bar, at, plot, scene.layers.length, up, down)),
      middle,
      text(plot.left + plot.width, plot.top + HEIGHT + 32, "layer", { "text-anchor": "end" }),
    ),
    plot,
    gist: gist(run, scene, types),
    table: () => table(scene),
  };
}

function drawBar(run: RunPage, bar: LayerBar, at: number, plot: Plot, bars: number, up: Scale, down: Scale): Mark[] {
  const step = plot.width / bars;
  const from = plot.left + at * step;
  const inner = Math.max(1, step - Math.min(4, step * 0.25));
  const isNamed = at % Math.ceil(LABEL_PIXELS / step) === 0;
  const name = bar.layer === null ? "–" : String(bar.layer);
  const label = text(from + inner / 2, plot.top + plot.height + 16, name, { "text-anchor": "middle" });
  return [
    ...stack(run, bar, from, inner, "read_bytes", up),
    ...stack(run, bar, from, inner, "written_bytes", down),
    ...(isNamed ? [label] : []),
  ];
}

function stack(run: RunPage, bar: LayerBar, from: number, width: number, key: keyof Bytes, y: Scale): Mark[] {
  let below = 0;
  return bar.parts.map((part) => {
    const [near, far] = [y(below), y(below + part[key])];
    below += part[key];
    const box = rect(from, Math.min(near, far), width, Math.abs(far - near), { fill: regionColour(part.region_type) });
    return titled(
      box,
      `${bar.layer === null ? "no layer" : `layer ${bar.layer}`}, ${regionTitle(run, part.region_type)}: ${words(part)}`,
    );
  });
}

function words({ read_bytes, written_bytes }: Bytes): string {
  const times = written_bytes === 0 ? "never written" : `${brief(ratio(read_bytes / written_bytes))} : 1`;
  return `${bytes(read_bytes)} read, ${bytes(written_bytes)} written (${times})`;
}

function outsideWords(run: RunPage, { outside }: LayersScene): string {
  const parts = outside.map((part) => `${regionTitle(run, part.region_type)}: ${words(part)}`);
  return parts.length === 0 ? "" : `Not drawn, because it belongs to no layer: ${parts.join(". ")}.`;
}

function gist(run: RunPage, { layers }: LayersScene, types: string[]): string {
  const parts = layers.flatMap((bar) => bar.parts);
  const sums = types.map(
    (type) => `${regionTitle(run, type)}: ${words(totalOf(parts.filter((part) => part.region_type === type)))}`,
  );
  return `Reads and writes of ${counted(layers.length, "layer")}. ${sums.join(". ")}.`;
}

function table({ layers, outside }: LayersScene): Table {
  const rows = [{ layer: null, parts: outside }, ...layers].flatMap(({ layer, parts }) =>
    parts.map((part) => [
      layer,
      part.region_type,
      part.read_bytes,
      part.written_bytes,
      part.written_bytes === 0 ? null : part.read_bytes / part.written_bytes,
    ]),
  );
  return { columns: ["layer", "region_type", "read_bytes", "written_bytes", "read_bytes_per_written_byte"], rows };
}
