/** What a view of a run is given, and what it gives: a section of the page. */

import type { Chart } from "./chart.ts";
import type { DetailSource } from "./detail.ts";
import type { MapState } from "./map/memory_map.ts";
import type { RunPage } from "./page.ts";
import type { TimeWindow } from "./time_window.ts";

/** Makes a chart known to the page under its name. */
export type AddChart = (chart: Chart) => HTMLElement;

export interface RunContext {
  run: RunPage;
  /** Shared by all charts over time. */
  window: TimeWindow;
  detail: DetailSource;
  /** Where the reader is in the memory map; outlives a page that is drawn again. */
  mapState: MapState;
  add: AddChart;
}

/** null if the run has nothing to show. */
export type RunView = (context: RunContext) => HTMLElement | null;
