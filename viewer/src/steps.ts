/** Paths of values that hold for a while: exact where the plot cuts them, because no slope is cut. */

/** A line; broken where a value is null. The steps between neighbours are joined. */
export function stepLine(begin: readonly number[], end: readonly number[], y: readonly (number | null)[]): string {
  let path = "";
  let isDrawing = false;
  y.forEach((value, place) => {
    if (value !== null) {
      const joins = isDrawing && begin[place] <= end[place - 1] + 0.5;
      path += `${joins ? "L" : "M"}${at(begin[place], value)}H${short(end[place])}`;
    }
    isDrawing = value !== null;
  });
  return path;
}

/** The area between two step lines. */
export function stepArea(
  begin: readonly number[],
  end: readonly number[],
  from: readonly number[],
  to: readonly number[],
): string {
  if (begin.length === 0) {
    return "";
  }
  const there = to.map((value, place) => `L${at(begin[place], value)}H${short(end[place])}`);
  const back = from.map((value, place) => `L${at(end[place], value)}H${short(begin[place])}`).reverse();
  return `M${there.join("").slice(1)}${back.join("")}Z`;
}

function at(x: number, y: number): string {
  return `${short(x)},${short(y)}`;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}
