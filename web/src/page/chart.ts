/** Memory over time, stacked, with the tokens as marks below: drawn on a canvas, because it is drawn again several times a second. */

import { element } from "../../../viewer/src/dom.ts";
import { brief, bytes, byteUnit, duration, significant } from "../../../viewer/src/format.ts";
import type { Parts } from "./parts.ts";

interface Layer {
  name: string;
  colour: string;
  value: (parts: Parts) => number;
}

/** From the bottom. */
const LAYERS: readonly Layer[] = [
  { name: "Weights", colour: "--weight", value: ({ weights }) => weights },
  { name: "KV cache", colour: "--kv_cache", value: ({ kvCache }) => kvCache },
  { name: "Compute buffers", colour: "--work_buffer", value: ({ compute }) => compute },
  { name: "Other graphics memory", colour: "--recurrent_state", value: ({ gpuRest }) => gpuRest },
  { name: "Other WebAssembly", colour: "--activation", value: ({ wasmRest }) => wasmRest },
  { name: "JavaScript heap", colour: "--runtime", value: ({ heap }) => heap },
];

const totalOf = (parts: Parts): number => LAYERS.reduce((sum, { value }) => sum + value(parts), 0);

const HEIGHT = 260;
const MARGIN = { left: 64, right: 12, top: 12, bottom: 44 };
const TOKENS_HEIGHT = 10;
const LEAST_SPAN_MS = 1_000;
const REDRAW_MS = 200;
const Y_TICKS = 4;

export class MemoryChart {
  readonly node: HTMLElement;
  readonly #canvas = element("canvas", { role: "img", tabindex: 0, "aria-label": "Memory over time" });
  readonly #legend = element("ul", { class: "legend" });
  readonly #readout = element("p", { class: "readout-line", "aria-live": "off" });
  #samples: Parts[] = [];
  #tokenTimes: number[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #pointer: number | null = null;

  constructor() {
    this.node = element("figure", { class: "chart" }, this.#legend, this.#canvas, this.#readout);
    new ResizeObserver(() => this.#draw()).observe(this.#canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    this.#canvas.addEventListener("pointermove", (event) => this.#point(event.offsetX));
    this.#canvas.addEventListener("pointerleave", () => this.#point(null));
    this.#canvas.addEventListener("keydown", (event) => this.#step(event));
  }

  clear(): void {
    this.#samples = [];
    this.#tokenTimes = [];
    this.#pointer = null;
    this.#soon();
  }

  add(sample: Parts): void {
    this.#samples.push(sample);
    this.#soon();
  }

  addToken(t_ms: number): void {
    this.#tokenTimes.push(t_ms);
    this.#soon();
  }

  /** Draws now what has come since it was last drawn. */
  finish(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#draw();
  }

  /** Drawing often would cost what is being measured. */
  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#draw();
    }, REDRAW_MS);
  }

  #point(x: number | null): void {
    this.#pointer = x;
    this.#draw();
  }

  #step(event: KeyboardEvent): void {
    const by = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      this.#point(Math.min(this.#canvas.clientWidth, Math.max(0, (this.#pointer ?? this.#canvas.clientWidth) + by)));
    }
  }

  #draw(): void {
    const width = this.#canvas.clientWidth;
    const context = this.#canvas.getContext("2d");
    if (width === 0 || context === null) {
      return;
    }
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(HEIGHT * ratio);
    context.scale(ratio, ratio);
    const picture = new Picture(context, width, this.#samples);
    picture.axes();
    const shown = LAYERS.filter(({ value }) => this.#samples.some((sample) => value(sample) > 0));
    picture.layers(shown);
    picture.tokens(this.#tokenTimes);
    this.#describe(shown, picture);
  }

  #describe(shown: Layer[], picture: Picture): void {
    const at = this.#pointer === null ? this.#samples.at(-1) : picture.nearest(this.#pointer);
    if (this.#pointer !== null && at) {
      picture.crosshair(at);
    }
    this.#legend.replaceChildren(...shown.map((layer) => legendItem(layer, at)));
    const since = at && this.#samples[0] ? (at.t_ms - this.#samples[0].t_ms) / 1000 : 0;
    const text = at ? `${bytes(totalOf(at))} in all at ${duration(since)}, ${at.tokens} tokens` : "";
    this.#readout.textContent = text;
    this.#canvas.setAttribute("aria-label", `Memory over time. ${text}`);
  }
}

function legendItem({ name, colour, value }: Layer, at: Parts | undefined): HTMLElement {
  const swatch = element("span", { class: "swatch" });
  swatch.style.background = `var(${colour})`;
  return element("li", {}, swatch, `${name} `, element("b", {}, at ? bytes(value(at)) : ""));
}

class Picture {
  readonly #context: CanvasRenderingContext2D;
  readonly #samples: Parts[];
  readonly #width: number;
  readonly #begin: number;
  readonly #span: number;
  readonly #top: number;
  readonly #unit: { name: string; bytes: number };
  readonly #style = getComputedStyle(document.documentElement);

  constructor(context: CanvasRenderingContext2D, width: number, samples: Parts[]) {
    this.#context = context;
    this.#samples = samples;
    this.#width = width;
    this.#begin = samples[0]?.t_ms ?? 0;
    this.#span = Math.max(LEAST_SPAN_MS, (samples.at(-1)?.t_ms ?? 0) - this.#begin);
    const most = samples.reduce((peak, sample) => Math.max(peak, totalOf(sample)), 0) || 1;
    this.#unit = byteUnit(most);
    this.#top = roundUp(most / this.#unit.bytes) * this.#unit.bytes;
  }

  axes(): void {
    const context = this.#context;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (let tick = 0; tick <= Y_TICKS; tick++) {
      const value = (this.#top * tick) / Y_TICKS;
      const y = this.#y(value);
      this.#line(MARGIN.left, y, this.#width - MARGIN.right, y, tick === 0 ? "--rule" : "--grid");
      context.fillStyle = this.#colour("--muted");
      context.fillText(brief(`${significant(value / this.#unit.bytes)} ${this.#unit.name}`), MARGIN.left - 8, y);
    }
    context.textBaseline = "top";
    for (const share of [0, 0.5, 1]) {
      context.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
      const x = MARGIN.left + share * this.#plotWidth;
      context.fillText(brief(duration((share * this.#span) / 1000)), x, HEIGHT - MARGIN.bottom + TOKENS_HEIGHT + 14);
    }
  }

  layers(shown: Layer[]): void {
    let below: number[] = this.#samples.map(() => 0);
    for (const { colour, value } of shown) {
      const above = this.#samples.map((sample, at) => (below[at] ?? 0) + value(sample));
      this.#area(below, above, this.#colour(colour));
      below = above;
    }
  }

  /** A mark for each token, below the axis. */
  tokens(times: number[]): void {
    const y = HEIGHT - MARGIN.bottom + 6;
    this.#context.fillStyle = this.#colour("--token");
    for (const time of times) {
      this.#context.fillRect(this.#x(time) - 0.5, y, 1, TOKENS_HEIGHT);
    }
  }

  crosshair({ t_ms }: Parts): void {
    this.#line(this.#x(t_ms), MARGIN.top, this.#x(t_ms), HEIGHT - MARGIN.bottom, "--ink");
  }

  nearest(x: number): Parts | undefined {
    const time = this.#begin + ((x - MARGIN.left) / this.#plotWidth) * this.#span;
    const after = this.#samples.findIndex(({ t_ms }) => t_ms >= time);
    return this.#samples[after < 0 ? this.#samples.length - 1 : after];
  }

  /** Steps: memory is what it was until the next sample tells otherwise. */
  #area(below: number[], above: number[], colour: string): void {
    const context = this.#context;
    context.beginPath();
    this.#steps(above, 0, 1);
    this.#steps(below, this.#samples.length - 1, -1);
    context.closePath();
    context.fillStyle = colour;
    context.fill();
  }

  #steps(values: number[], from: number, by: 1 | -1): void {
    let previous: number | undefined;
    for (let at = from; at >= 0 && at < this.#samples.length; at += by) {
      const x = this.#x(this.#samples[at]?.t_ms ?? 0);
      const y = this.#y(values[at] ?? 0);
      if (by > 0 && previous !== undefined) {
        this.#context.lineTo(x, previous);
      }
      this.#context.lineTo(x, y);
      const next = values[at - 1];
      if (by < 0 && next !== undefined) {
        this.#context.lineTo(x, this.#y(next));
      }
      previous = y;
    }
  }

  get #plotWidth(): number {
    return this.#width - MARGIN.left - MARGIN.right;
  }

  #x(t_ms: number): number {
    return MARGIN.left + ((t_ms - this.#begin) / this.#span) * this.#plotWidth;
  }

  #y(value: number): number {
    return HEIGHT - MARGIN.bottom - (value / this.#top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  }

  #line(x1: number, y1: number, x2: number, y2: number, colour: string): void {
    const context = this.#context;
    context.strokeStyle = this.#colour(colour);
    context.beginPath();
    context.moveTo(x1, Math.round(y1) + 0.5);
    context.lineTo(x2, Math.round(y2) + 0.5);
    context.stroke();
  }

  /** The canvas knows no `light-dark()`: the colour as the page computes it. */
  #colour(name: string): string {
    const [light = "", dark = light] = [...this.#style.getPropertyValue(name).matchAll(/#[0-9a-f]+/gi)].map(([colour]) => colour);
    return matchMedia("(prefers-color-scheme: dark)").matches ? dark : light;
  }
}

/** A round number that is not below a value, and whose quarters are round as well. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find((each) => each * power >= value) ?? 10;
  return factor * power;
}
