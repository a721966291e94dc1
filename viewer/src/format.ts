/** Numbers with units, three significant digits, a narrow space that does not break before the unit. */

const SPACE = "\u202f";
const DASH = "–";

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Units of time from the shortest, each in seconds. */
const TIME_UNITS: readonly (readonly [string, number])[] = [
  ["ns", 1e-9],
  ["µs", 1e-6],
  ["ms", 1e-3],
  ["s", 1],
  ["min", 60],
  ["h", 3600],
];

/** Of what a second stands for a billion, where the recording had no clock; null for true seconds. */
let countedUnit: string | null = null;

/** From now on, times are written as counts of these; as times if it is null. */
export function countTimesIn(unit: string | null): void {
  countedUnit = unit;
}

export function withUnit(number: string, unit: string): string {
  return unit === "" ? number : number + SPACE + unit;
}

/** Three significant digits, thousands separated, no exponent for sizes that a reader meets. */
export function significant(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) {
    return value.toExponential(2);
  }
  // Of the rounded number: 9.999 is written as 10.0.
  const rounded = Number(size.toPrecision(3));
  const decimals = rounded === 0 || rounded >= 100 ? 0 : 2 - Math.floor(Math.log10(rounded));
  return fixed(value, Math.max(0, decimals));
}

/** So many decimals, thousands separated, with a true minus sign. */
export function fixed(value: number, decimals: number): string {
  const text = Math.abs(value).toLocaleString("en-GB", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return (value < 0 && Number(text.replaceAll(",", "")) !== 0 ? "−" : "") + text;
}

/** A whole number, all digits. */
export function count(value: number | null): string {
  return value === null ? DASH : fixed(value, 0);
}

/** The power of 1024 that a size is written in. */
export function byteUnit(bytes: number): { name: string; bytes: number } {
  let power = 0;
  // 1023.5 KiB would be rounded to 1,024 KiB.
  while (power < BYTE_UNITS.length - 1 && Math.abs(bytes) >= 1023.5 * 1024 ** power) {
    power += 1;
  }
  return { name: BYTE_UNITS[power], bytes: 1024 ** power };
}

export function bytes(value: number | null): string {
  if (value === null) {
    return DASH;
  }
  const unit = byteUnit(value);
  const number = unit.bytes === 1 && Number.isInteger(value) ? fixed(value, 0) : significant(value / unit.bytes);
  return withUnit(number, unit.name);
}

export function bytesPerSecond(value: number | null): string {
  if (value === null) {
    return DASH;
  }
  const { sign, words, seconds } = rateUnit();
  return bytes(value * seconds) + (words === "" ? sign : SPACE + words);
}

/**
 * What rates are per: a second, or a million of what timestamps count instead. `sign` stands behind a number; what is too long for
 * an axis is in `words`.
 */
export function rateUnit(): { sign: string; words: string; seconds: number } {
  return countedUnit === null
    ? { sign: "/s", words: "", seconds: 1 }
    : { sign: "", words: `per million ${countedUnit}`, seconds: 1e-3 };
}

/** The unit that a duration is written in: seconds up to two minutes. */
export function timeUnit(seconds: number): { name: string; seconds: number } {
  if (countedUnit !== null) {
    return { name: countedUnit, seconds: 1e-9 };
  }
  const size = Math.abs(seconds);
  const fits = TIME_UNITS.filter(([, length]) => size >= (length > 1 ? 2 : 0.9995) * length);
  const [name, length] = seconds === 0 ? TIME_UNITS[3] : (fits.at(-1) ?? TIME_UNITS[0]);
  return { name, seconds: length };
}

export function duration(seconds: number | null): string {
  if (seconds === null) {
    return DASH;
  }
  const unit = timeUnit(seconds);
  return withUnit(significant(seconds / unit.seconds), unit.name);
}

/** `2:56 min` or `1:02:56 h`: a time of minutes or hours, in the unit of the longest time beside it. */
export function clock(at_s: number, longest_s: number, decimals = 0): string {
  const { seconds: unit_s, name } = timeUnit(longest_s);
  const rounded_s = Number(Math.abs(at_s).toFixed(decimals));
  const seconds = (rounded_s % 60).toFixed(decimals).padStart(decimals === 0 ? 2 : 3 + decimals, "0");
  const minutes = Math.floor(rounded_s / 60);
  const parts = unit_s === 3600 ? [Math.floor(minutes / 60), String(minutes % 60).padStart(2, "0")] : [minutes];
  return withUnit((at_s < 0 ? "−" : "") + [...parts, seconds].join(":"), name);
}

/** A moment with as many decimals as tell a thousand of them apart in a span. */
export function moment(at_s: number, span_s: number): string {
  const longest_s = Math.max(Math.abs(at_s), span_s);
  const unit = timeUnit(longest_s);
  const decimalsOf = (unit_s: number): number => Math.ceil(-Math.log10(span_s / unit_s / 1000) - 1e-9);
  if (unit.seconds >= 60) {
    return clock(at_s, longest_s, Math.min(9, Math.max(0, decimalsOf(1))));
  }
  const decimals = decimalsOf(unit.seconds);
  return withUnit(fixed(at_s / unit.seconds, Math.min(9, Math.max(0, decimals))), unit.name);
}

/** A share of one, as a percentage. A share that is not quite nothing or everything is not rounded to it. */
export function percent(share: number | null): string {
  if (share === null) {
    return DASH;
  }
  if (share > 0 && share < 0.0005) {
    return withUnit("< 0.1", "%");
  }
  if (share < 1 && share > 0.9995) {
    return withUnit("> 99.9", "%");
  }
  const value = share * 100;
  return withUnit(Number.isInteger(value) ? fixed(value, 0) : fixed(value, 1), "%");
}

/** Without zeros after the point: for round numbers on axes and in sentences. */
export function brief(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** A ratio such as reads per write. */
export function ratio(value: number | null): string {
  return value === null ? DASH : significant(value);
}

/** Units of dwell that are written in several sizes. */
export const SCALED_UNITS: readonly string[] = ["bytes", "bytes/s", "s", "ns"];

/** A number in the unit that dwell names, scaled where the unit is one that readers know in several sizes. */
export function inUnit(value: number | null, unit: string): string {
  if (value === null) {
    return DASH;
  }
  switch (unit) {
    case "bytes":
      return bytes(value);
    case "bytes/s":
      return bytesPerSecond(value);
    case "s":
      return duration(value);
    case "ns":
      return duration(value * 1e-9);
    case "percent":
    case "%":
      return withUnit(significant(value), "%");
    default:
      return withUnit(Number.isInteger(value) ? count(value) : significant(value), unit);
  }
}

/** `1 byte`, `2 bytes`: for sentences. */
export function counted(value: number, singular: string, plural = singular + "s"): string {
  return `${count(value)} ${value === 1 ? singular : plural}`;
}
