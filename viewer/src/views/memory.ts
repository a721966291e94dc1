/** Where resident memory went, and what a token takes in the KV cache. */

import { max, min } from "d3-array";

import { linear, type Plot, type Scale } from "../axes.ts";
import { Chart, type Drawing } from "../chart.ts";
import { element, section } from "../dom.ts";
import { bytes, percent } from "../format.ts";
import { fitted } from "../legend.ts";
import { line, picture, rect, text, titled, type Mark } from "../mark.ts";
import type { KvPerToken, MemoryPart } from "../page.ts";
import type { RunView } from "../view.ts";

export const memoryView: RunView = ({ run, add }) => {
  const { memory_parts, kv_per_token } = run;
  if (memory_parts.length === 0 && kv_per_token === null) {
    return null;
  }
  const lead = "What is resident memory made of? Each bar begins where the one before ended; the last is their sum.";
  const kv =
    kv_per_token === null
      ? []
      : [add(kvPerTokenChart(kv_per_token).withHeading()), element("p", { class: "note" }, kvWords(kv_per_token))];
  return section(
    "memory",
    "Resident memory",
    memory_parts.length === 0 ? null : lead,
    ...(memory_parts.length === 0 ? [] : [add(memoryPartsChart(memory_parts))]),
    ...kv,
  );
};

/** A part with where its bar begins and ends: each begins where the one before ended. */
interface Step extends MemoryPart {
  from_bytes: number;
  to_bytes: number;
}

export interface MemoryScene {
  steps: Step[];
  sum_bytes: number;
}

const ROW = 36;
const BAR = 17;

function memoryPartsChart(parts: readonly MemoryPart[]): Chart<MemoryScene> {
  return new Chart("memory_parts", "Resident memory by part", (width) => draw(memoryScene(parts), width));
}

export function memoryScene(parts: readonly MemoryPart[]): MemoryScene {
  let sum_bytes = 0;
  const steps = parts.map((part) => {
    const from_bytes = sum_bytes;
    sum_bytes += part.bytes;
    return { ...part, from_bytes, to_bytes: sum_bytes };
  });
  return { steps, sum_bytes };
}

function draw(scene: MemoryScene, width: number): Drawing<MemoryScene> {
  const left = width < 560 ? 130 : 240;
  const numbers = 84;
  const plot: Plot = { left, top: 4, width: width - left - numbers, height: (scene.steps.length + 1) * ROW };
  const ends = [0, ...scene.steps.map(({ to_bytes }) => to_bytes)];
  const x = linear([min(ends) ?? 0, max(ends) || 1], [plot.left, plot.left + plot.width]);
  const total = {
    name: "sum",
    title: "Resident",
    bytes: scene.sum_bytes,
    source: "sum of all parts",
    from_bytes: 0,
    to_bytes: scene.sum_bytes,
  };
  return {
    scene,
    svg: picture(
      width,
      plot.height + 12,
      ...scene.steps.flatMap((step, at) => drawStep(step, plot, at, x)),
      ...drawStep(total, plot, scene.steps.length, x),
      line(plot.left, plot.top + scene.steps.length * ROW, width, plot.top + scene.steps.length * ROW, { stroke: "var(--ink)" }),
    ),
    plot,
    gist: `Resident memory of ${bytes(scene.sum_bytes)}: ${scene.steps.map((step) => `${step.title} ${bytes(step.bytes)}`).join(", ")}.`,
    table: () => ({
      columns: ["name", "title", "bytes", "source"],
      rows: scene.steps.map((step) => [step.name, step.title, step.bytes, step.source]),
    }),
  };
}

function drawStep(step: Step, plot: Plot, at: number, x: Scale): Mark[] {
  const top = plot.top + at * ROW;
  const [from, to] = [x(step.from_bytes), x(step.to_bytes)].sort((left, right) => left - right);
  const isTotal = step.name === "sum";
  const fill = isTotal ? "var(--ink)" : step.bytes < 0 ? "var(--minus)" : "var(--part)";
  const title = { "text-anchor": "end", fill: "var(--ink)", "font-weight": isTotal ? 600 : 400 };
  const source = { "text-anchor": "end", "font-size": 11 };
  const room = plot.left - 8;
  return [
    titled(text(room, top + 14, fitted(step.title, room), title), step.title),
    titled(text(room, top + 28, fitted(step.source, room * 1.1), source), step.source),
    rect(from, top + 6, Math.max(1, to - from), BAR, { fill }),
    text(to + 6, top + 19, bytes(step.bytes), { fill: "var(--ink)" }),
  ];
}

function kvPerTokenChart(kv: KvPerToken): Chart<KvPerToken> {
  return new Chart("kv_per_token", "KV cache per token", (width) => drawKv(kv, width));
}

function drawKv(kv: KvPerToken, width: number): Drawing<KvPerToken> {
  const left = width < 560 ? 130 : 240;
  const plot: Plot = { left, top: 4, width: width - left - 84, height: 2 * ROW };
  const bars = [
    ["measured", kv.measured_bytes, "var(--kv_cache)"],
    ["by arithmetic", kv.theoretical_bytes, "var(--muted)"],
  ] as const;
  const x = linear([0, Math.max(kv.measured_bytes ?? 0, kv.theoretical_bytes ?? 0) || 1], [0, plot.width]);
  const drawn = bars.flatMap(([title, value, fill], at) => [
    text(left - 8, plot.top + at * ROW + 19, title, { "text-anchor": "end", fill: "var(--ink)" }),
    rect(left, plot.top + at * ROW + 6, x(value ?? 0), BAR, { fill }),
    text(left + x(value ?? 0) + 6, plot.top + at * ROW + 19, value === null ? "not known" : bytes(value), { fill: "var(--ink)" }),
  ]);
  return {
    scene: kv,
    svg: picture(width, plot.height + 8, ...drawn),
    plot,
    gist: kvWords(kv),
    table: () => ({ columns: ["measured_bytes", "theoretical_bytes"], rows: [[kv.measured_bytes, kv.theoretical_bytes]] }),
  };
}

function kvWords({ measured_bytes, theoretical_bytes }: KvPerToken): string {
  const known = `A token takes ${bytes(measured_bytes)} of KV cache as measured and ${bytes(theoretical_bytes)} by arithmetic`;
  return measured_bytes !== null && theoretical_bytes
    ? `${known}: ${percent(measured_bytes / theoretical_bytes)} of it.`
    : `${known}.`;
}
