/** What is read and written most: by layer, by step, by operation. */

import { element, section } from "../dom.ts";
import { SIDES_NOTE } from "../mirrored.ts";
import type { RunView } from "../view.ts";
import { layersChart } from "./layers.ts";
import { operationsChart } from "./operations.ts";
import { workingSetChart } from "./working_set.ts";

export const activityView: RunView = ({ run, add }) => {
  const { places, working_set, operations } = run.overview;
  const parts = [
    places.length === 0 ? [] : [add(layersChart(run).withHeading())],
    working_set.series.length === 0
      ? []
      : [
          add(workingSetChart(run).withHeading()),
          element(
            "p",
            { class: "note" },
            "Distinct bytes that a step touches. A line that rises is memory that grows with the context.",
          ),
        ],
    operations.length === 0 ? [] : [add(operationsChart(run).withHeading())],
  ].flat();
  return parts.length === 0
    ? null
    : section("activity", "Reads and writes", `What is read and written most, in the whole run? ${SIDES_NOTE}`, ...parts);
};
