/** Colours by what they stand for. The values are CSS variables in report.css, light and dark. */

const REGION_TYPES = ["weight", "kv_cache", "recurrent_state", "activation", "work_buffer", "runtime"];

const REGION_DASHES: Record<string, string> = { kv_cache: "8 6", recurrent_state: "4 4", work_buffer: "3 2" };

/** Styles of lines that stand for no region type: series are told apart by dashes as well as by colour. */
const SERIES_DASHES = ["none", "6 3", "2 3", "9 3 2 3"];

export function regionColour(regionType: string): string {
  return `var(--${REGION_TYPES.includes(regionType) ? regionType : "other"})`;
}

/** Lines that lie on each other, such as those of data that never ended, stay visible through the gaps. */
export function regionDash(regionType: string): string {
  return REGION_DASHES[regionType] ?? "none";
}

/** Region types in the order in which charts stack and list them. */
export function byRegionType(left: { region_type: string }, right: { region_type: string }): number {
  return rank(left.region_type) - rank(right.region_type);
}

function rank(regionType: string): number {
  const place = REGION_TYPES.indexOf(regionType);
  return place < 0 ? REGION_TYPES.length : place;
}

export function seriesStyle(place: number): { stroke: string; "stroke-dasharray": string } {
  return { stroke: `var(--series-${place % 4})`, "stroke-dasharray": SERIES_DASHES[place % SERIES_DASHES.length] };
}

/** Red, green and blue, 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Gives the colours of CSS variables as the page shows them now, or as paper shows them. */
export function colourReader(scheme: "shown" | "light" = "shown"): (name: string) => Rgb {
  const probe = document.createElement("span");
  if (scheme === "light") {
    probe.style.colorScheme = "light";
  }
  return (name) => {
    document.body.append(probe);
    probe.style.color = `var(${name})`;
    const colour = rgb(getComputedStyle(probe).color);
    probe.remove();
    return colour;
  };
}

function rgb(computed: string): Rgb {
  const [red = 0, green = 0, blue = 0] = (computed.match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue];
}

export function css(colour: Rgb): string {
  return `rgb(${colour.map(Math.round).join(" ")})`;
}

export function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  const mix = (channel: 0 | 1 | 2): number => from[channel] + (to[channel] - from[channel]) * share;
  return [mix(0), mix(1), mix(2)];
}
