/** What dwell calls a region type in words. */

import type { RunPage } from "./page.ts";

export function regionTitle(run: RunPage, regionType: string): string {
  return run.regions.find((region) => region.region_type === regionType)?.title ?? regionType.replaceAll("_", " ");
}
