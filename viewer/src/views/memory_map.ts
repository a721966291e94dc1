/** Which memory is read and written when: a row per tensor, a column per span of time. */

import type { Chart } from "../chart.ts";
import type { DetailSource } from "../detail.ts";
import { button, choice, element, section } from "../dom.ts";
import { DEPTHS, descended, groupAt, placesAt, rowAt, type MapPath } from "../map/layout.ts";
import { MemoryMap, type MapScene } from "../map/memory_map.ts";
import { timeChart } from "../time_chart.ts";
import type { TimeWindow } from "../time_window.ts";
import type { RunView } from "../view.ts";

const MODES = [
  ["both", "Reads and writes"],
  ["read", "Reads"],
  ["written", "Writes"],
] as const;

export const memoryMapView: RunView = ({ run, window, detail, mapState, add }) =>
  run.overview.places.length === 0
    ? null
    : section(
        "memory_map",
        "Memory map",
        "Where do reads and writes go? Each row is a tensor, ordered by kind of memory, layer and name; each column is a span of time. " +
          "Click a kind of memory to see its layers, a layer to see its tensors; or use the keys ↑ ↓, Enter and Escape.",
        add(memoryMapChart(new MemoryMap(run, detail, mapState), window, detail)),
      );

function memoryMapChart(map: MemoryMap, window: TimeWindow, detail: DetailSource): Chart<MapScene> {
  const chart = timeChart({
    name: "memory_map",
    title: "Memory map",
    window,
    draw: (width) => map.draw(window.shown, width),
    read: (at_s) => map.read(at_s),
    click: ({ y }) => walk.open(groupAt(map.groups, y - chart.drawing.plot.top)),
  });
  const walk = new MapWalk(map, window, () => chart.redraw());
  detail.onDetail(() => chart.redraw());
  followPointer(chart, map);
  chart.frame.addEventListener("keydown", (event) => {
    if (walk.press(event.key)) {
      event.preventDefault();
    }
  });
  const modes = choice("What is coloured", MODES, map.state.mode, (mode) => {
    map.state.mode = mode;
    chart.redraw();
  });
  chart.controls.prepend(walk.crumbs, modes);
  return chart;
}

function followPointer(chart: Chart<MapScene>, map: MemoryMap): void {
  // Before the listeners of the chart, which read the row.
  const first = { capture: true };
  const hover = (event: PointerEvent): void => {
    map.state.hovered = rowAt(map.groups, chart.locate(event).y - chart.drawing.plot.top);
  };
  chart.frame.addEventListener("pointermove", hover, first);
  chart.frame.addEventListener("pointerleave", () => (map.state.hovered = null), first);
}

/** The way through region types, layers and tensors: by click, by keyboard, and back by the crumbs above the map. */
class MapWalk {
  readonly crumbs = element("nav", { class: "crumbs", "aria-label": "Part of memory that the map shows" });

  constructor(
    readonly map: MemoryMap,
    readonly window: TimeWindow,
    readonly redraw: () => void,
  ) {
    this.#showCrumbs();
  }

  /** Looks into a group, if there is anything inside. */
  open(group: number | null): void {
    const { places, groups, state } = this.map;
    if (group !== null && state.path.length < DEPTHS.length) {
      this.#go(descended(places, state.path, groups[group].key));
    }
  }

  /** Says whether the key means anything. */
  press(key: string): boolean {
    const { state } = this.map;
    switch (key) {
      case "ArrowDown":
      case "ArrowUp":
        this.#select(key === "ArrowDown" ? 1 : -1);
        return true;
      case "Enter":
        this.open(state.selected);
        return true;
      case "Escape":
      case "Backspace":
        this.#go(state.path.slice(0, -1));
        return true;
      default:
        return false;
    }
  }

  #go(path: MapPath): void {
    Object.assign(this.map.state, { path, selected: null, hovered: null });
    this.#showCrumbs();
    this.redraw();
  }

  #select(step: number): void {
    const { state, groups } = this.map;
    const last = groups.length - 1;
    state.selected = state.selected === null ? (step > 0 ? 0 : last) : Math.min(last, Math.max(0, state.selected + step));
    this.redraw();
    // The readout shows the group.
    this.window.point(this.window.cursor_s);
  }

  #showCrumbs(): void {
    const { places, state } = this.map;
    const place = places[placesAt(places, state.path)[0]];
    const steps = state.path.map((_, depth) => [this.map.titleAt(depth, place), state.path.slice(0, depth + 1)] as const);
    const links = [["All memory", []] as const, ...steps].map(([title, path], at, all) =>
      button(title, () => this.#go(path), { "aria-current": at === all.length - 1 ? "true" : null }),
    );
    this.crumbs.replaceChildren(...links);
  }
}
