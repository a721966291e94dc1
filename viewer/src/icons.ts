/** Signs that stand beside words, so that nothing is told by colour alone. */

import { mark, toDom, type Mark } from "./mark.ts";

const INK = { fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" };
const RING = mark("circle", { cx: 8, cy: 8, r: 6, ...INK });

const SHAPES: Record<string, Mark[]> = {
  good: [RING, mark("path", { d: "M5 8.3 7.2 10.5 11 6", ...INK })],
  note: [RING, mark("path", { d: "M8 7.5V11.2M8 4.9V5", ...INK })],
  bad: [mark("path", { d: "M8 2 14.5 13.5H1.5Z", ...INK }), mark("path", { d: "M8 6.5V9.5M8 11.6V11.7", ...INK })],
  high_mrm: [RING, mark("circle", { cx: 8, cy: 8, r: 6, fill: "currentColor" })],
  medium_mrm: [RING, mark("path", { d: "M8 2A6 6 0 0 1 8 14Z", fill: "currentColor" })],
  low_mrm: [RING],
  not_suitable: [mark("path", { d: "M3.5 3.5 12.5 12.5M12.5 3.5 3.5 12.5", ...INK })],
};

/** Of what has no sign of its own: a class that could not be given. */
const UNKNOWN = [mark("circle", { cx: 8, cy: 8, r: 6, ...INK, "stroke-dasharray": "2 3" })];

export function icon(name: string): SVGElement {
  const made = toDom(mark("svg", { viewBox: "0 0 16 16", width: 16, height: 16, class: "icon" }, ...(SHAPES[name] ?? UNKNOWN)));
  made.setAttribute("aria-hidden", "true");
  return made;
}
