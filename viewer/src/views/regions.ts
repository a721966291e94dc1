/** The table of regions: what each kind of memory does and what could hold it. */

import { element, scrolling, swatch } from "../dom.ts";
import { bytes } from "../format.ts";
import { icon } from "../icons.ts";
import { byRegionType, regionColour } from "../colours.ts";
import type { RegionRow, RunPage } from "../page.ts";
import { speedWords } from "../thresholds.ts";

type Column = readonly [title: string, meaning: string];

/** Seconds are those of the recording where the run has no steps to count in. */
export function regionColumns(at_tokens_per_s: number | null): Column[] {
  const speed = at_tokens_per_s === null ? "in this run" : `at ${speedWords(at_tokens_per_s)}`;
  return [
    ["Memory", "Kind of memory"],
    ["Class", "Whether managed-retention memory could hold it"],
    [
      `Needed (p99, ${speed})`,
      "Required retention of 99 % of the data at most: from a store to the last load before the next store",
    ],
    ["Held (median, in this run)", "Residency of half of the data at most: from a store to the next store or the end"],
    ["Size", "Bytes of the regions"],
    ["Read / token", "Bytes read for each token"],
    ["Written / token", "Bytes written for each token"],
  ];
}

export function regionTable({ regions, thresholds }: Pick<RunPage, "regions" | "thresholds">): HTMLElement {
  const columns = regionColumns(thresholds.at_tokens_per_s);
  const head = element("tr", {}, ...columns.map(([name, meaning]) => element("th", { scope: "col", title: meaning }, name)));
  const table = element(
    "table",
    { class: "regions" },
    element("thead", {}, head),
    ...[...regions].sort(byRegionType).map((region) => regionBody(region, columns)),
  );
  return scrolling("Kinds of memory", table);
}

/** A body of two rows: the numbers, and the sentence below them at full width. */
function regionBody(region: RegionRow, columns: Column[]): HTMLElement {
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
  const cells = numbers.map((text, at) => element("td", { class: "number", "data-label": columns[at + 2][0] }, text));
  return element(
    "tbody",
    {},
    element("tr", {}, name, element("td", {}, suitability), ...cells),
    element("tr", { class: "sentence" }, element("td", { colspan: columns.length - 1 }, region.sentence)),
  );
}
