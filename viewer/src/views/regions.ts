/** The table of regions: what each kind of memory does and what could hold it. */

import { element, scrolling, swatch } from "../dom.ts";
import { bytes } from "../format.ts";
import { icon } from "../icons.ts";
import { byRegionType, regionColour } from "../colours.ts";
import type { RegionRow } from "../page.ts";

const COLUMNS = [
  ["Memory", "Kind of memory"],
  ["Class", "Whether managed-retention memory could hold it"],
  ["Needed for", "Required retention: from a store to the last load before the next store"],
  ["Held for", "Residency: from a store to the next store or the end"],
  ["Size", "Bytes of the regions"],
  ["Read / token", "Bytes read for each token"],
  ["Written / token", "Bytes written for each token"],
] as const;

export function regionTable(regions: readonly RegionRow[]): HTMLElement {
  const head = element("tr", {}, ...COLUMNS.map(([name, meaning]) => element("th", { scope: "col", title: meaning }, name)));
  const table = element(
    "table",
    { class: "regions" },
    element("thead", {}, head),
    ...[...regions].sort(byRegionType).map(regionBody),
  );
  return scrolling("Kinds of memory", table);
}

/** A body of two rows: the numbers, and the sentence below them at full width. */
function regionBody(region: RegionRow): HTMLElement {
  const name = element("th", { scope: "rowgroup", rowspan: 2 }, swatch(regionColour(region.region_type)), region.title);
  const suitability = element(
    "span",
    { class: `class class-${region.suitability}` },
    icon(region.suitability),
    region.suitability_title,
  );
  const numbers = [
    region.required_retention,
    region.residency,
    bytes(region.size_bytes),
    bytes(region.read_bytes_per_token),
    bytes(region.written_bytes_per_token),
  ];
  const cells = numbers.map((text, at) => element("td", { class: "number", "data-label": COLUMNS[at + 2][0] }, text));
  return element(
    "tbody",
    {},
    element("tr", {}, name, element("td", {}, suitability), ...cells),
    element("tr", { class: "sentence" }, element("td", { colspan: COLUMNS.length - 1 }, region.sentence)),
  );
}
