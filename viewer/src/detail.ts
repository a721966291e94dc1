/** What the charts over time draw: bytes by place and time, of the whole run or, finer, of the part of it that is shown. */

import type { RunPage, Tiles, Traffic } from "./page.ts";
import type { Span } from "./time_window.ts";

export interface DetailSource {
  /** Never waits: gives the finest that is there for a window. `tiles.place` counts the places of the run. */
  tilesFor: (shown: Span) => Tiles;
  trafficFor: (shown: Span) => Traffic;
  /** Hears when something finer has come. */
  onDetail: (tell: () => void) => void;
}

/** All that a file has: the overview of the run. */
export function overviewDetail({ overview }: RunPage): DetailSource {
  return { tilesFor: () => overview.tiles, trafficFor: () => overview.traffic, onDetail: () => undefined };
}
