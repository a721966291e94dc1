/** What colours mean, drawn into the picture so that a saved one has it too. */

import { mark, rect, text, line, type Mark } from "./mark.ts";

export interface LegendEntry {
  title: string;
  /** Attributes of the line or box. */
  style: Record<string, string>;
  isLine: boolean;
}

const ROW = 18;
/** Mean widths of letters at 12 pixels, in the widest of the common system fonts. */
const [LETTER, WIDE_LETTER] = [6.8, 8.6];
const WIDE = /[A-Zmw@%≥→…]/;
const BOX = 18;
const GAP = 14;

/** Width of a text in pixels at most, about: the font is the system's, and tests have none. */
export function textWidth(content: string): number {
  let width = 0;
  for (const letter of content) {
    width += WIDE.test(letter) ? WIDE_LETTER : LETTER;
  }
  return width;
}

/** A text that fits: its end is left out, or its beginning where the end says more. */
export function fitted(content: string, width: number, keep: "begin" | "end" = "begin"): string {
  if (textWidth(content) <= width) {
    return content;
  }
  const letters = [...content];
  while (letters.length > 0 && textWidth(letters.join("") + "…") > width) {
    keep === "begin" ? letters.pop() : letters.shift();
  }
  const part = letters.join("");
  return part === "" ? "" : keep === "begin" ? part + "…" : "…" + part;
}

/** Entries in rows as wide as the picture. */
export function legend(entries: LegendEntry[], left: number, top: number, width: number): { marks: Mark[]; height: number } {
  let x = left;
  let y = top;
  const marks = entries.map((entry) => {
    const size = BOX + textWidth(entry.title) + GAP;
    if (x > left && x + size > left + width) {
      x = left;
      y += ROW;
    }
    const drawn = mark("g", {}, sample(entry, x, y), text(x + BOX, y + 10, entry.title));
    x += size;
    return drawn;
  });
  return { marks, height: entries.length === 0 ? 0 : y - top + ROW };
}

function sample({ isLine, style }: LegendEntry, x: number, y: number): Mark {
  return isLine ? line(x, y + 6, x + 14, y + 6, { "stroke-width": 2, ...style }) : rect(x, y, 12, 12, style);
}
