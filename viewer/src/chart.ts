/** A picture with its data: what every chart of the page has in common. */

import type { Plot } from "./axes.ts";
import { colourReader, css, type Rgb } from "./colours.ts";
import { toCsv, type Table } from "./csv.ts";
import { button, element } from "./dom.ts";
import { mark, rect, toDom, toFile, type Mark } from "./mark.ts";
import type { TimeWindow } from "./time_window.ts";

/** Cells that are too many for SVG: painted on a canvas below the picture. */
export interface Raster {
  /** Paints the plot. One unit of the context is one pixel of the picture; `ratio` pixels of the canvas are one of them. */
  paint: (context: CanvasRenderingContext2D, colour: (name: string) => Rgb, ratio: number) => void;
}

/** A chart at one width. */
export interface Drawing<Scene extends object> {
  /** What is drawn, as numbers that nobody rounded. Plain data. */
  scene: Scene;
  svg: Mark;
  /** Where the data is. */
  plot: Plot;
  /** What a reader who cannot see the picture should know. */
  gist: string;
  table: () => Table;
  raster?: Raster;
}

/** Two canvas pixels for each pixel of a written picture: enough for print. */
const FILE_RATIO = 2;

export class Chart<Scene extends object = object> {
  readonly section: HTMLElement;
  readonly frame = element("div", { class: "frame" });
  readonly controls = element("div", { class: "controls" });
  /** The window of a chart with a time axis. */
  window: TimeWindow | null = null;
  /** What changes without drawing, such as the values under the pointer; part of the scene. */
  live: () => object = () => ({});
  readonly #draw: (width: number) => Drawing<Scene>;
  #drawing: Drawing<Scene> | null = null;
  #isStale = true;
  #width = 0;

  constructor(
    readonly name: string,
    readonly title: string,
    draw: (width: number) => Drawing<Scene>,
  ) {
    this.#draw = draw;
    this.controls.append(
      element(
        "span",
        { class: "files" },
        this.#fileButton("CSV", "text/csv", () => this.csv()),
        this.#fileButton("SVG", "image/svg+xml", () => this.svg()),
      ),
    );
    this.section = element("figure", { class: "chart", id: `chart-${name}`, "aria-label": title }, this.controls, this.frame);
    new ResizeObserver(() => this.#resized()).observe(this.frame);
  }

  /** Shows the title above the picture: for sections of several charts. */
  withHeading(): this {
    this.controls.prepend(element("h3", {}, this.title));
    return this;
  }

  get drawing(): Drawing<Scene> {
    if (this.#isStale || this.#drawing === null) {
      this.#isStale = false;
      this.#width = this.frame.clientWidth || 960;
      this.#drawing = this.#draw(this.#width);
      this.#show(this.#drawing);
    }
    return this.#drawing;
  }

  get scene(): Scene {
    return { ...this.drawing.scene, ...this.live() };
  }

  /** Draws before the next frame, once however often it is called. */
  redraw(): void {
    if (!this.#isStale) {
      this.#isStale = true;
      requestAnimationFrame(() => this.drawing);
    }
  }

  /** Paints canvases again: they hold pixels of the colours that were valid when they were painted. */
  recolour(): void {
    if (this.#drawing?.raster) {
      this.redraw();
    }
  }

  csv(): string {
    return toCsv(this.drawing.table());
  }

  /** The chart as a file of its own, in the colours of paper. */
  svg(): string {
    const { svg, plot, raster } = this.drawing;
    const colour = colourReader("light");
    const { width, height } = svg.attributes;
    const children: Mark[] = [rect(0, 0, Number(width), Number(height), { fill: "var(--paper)" })];
    if (raster) {
      const canvas = document.createElement("canvas");
      paint(canvas, plot, raster, colour, FILE_RATIO);
      children.push(
        mark("image", { x: plot.left, y: plot.top, width: plot.width, height: plot.height, href: canvas.toDataURL() }),
      );
    }
    return toFile({ ...svg, children: [...children, ...svg.children] }, (name) => css(colour(name)));
  }

  /** Where a point of the screen lies in the picture. */
  locate(event: MouseEvent): { x: number; y: number } {
    const box = this.frame.getBoundingClientRect();
    const scale = this.#width / box.width;
    return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
  }

  #resized(): void {
    if (this.#drawing !== null && this.frame.clientWidth !== 0 && this.frame.clientWidth !== this.#width) {
      this.redraw();
    }
  }

  #show({ svg, plot, gist, raster }: Drawing<Scene>): void {
    const image = toDom(svg);
    image.setAttribute("role", "img");
    image.setAttribute("aria-label", gist);
    this.frame.querySelectorAll(":scope > svg, :scope > canvas").forEach((old) => old.remove());
    if (raster) {
      const canvas = document.createElement("canvas");
      paint(canvas, plot, raster, colourReader(), devicePixelRatio || 1);
      place(canvas, plot, svg);
      this.frame.append(canvas);
    }
    this.frame.append(image);
  }

  #fileButton(label: string, type: string, content: () => string): HTMLButtonElement {
    const download = (): void => save(`dwell-${this.name.replace(/[^\w-]/g, "_")}.${label.toLowerCase()}`, type, content());
    return button(label, download, {
      title: `Save “${this.title}” as ${label}`,
      "aria-label": `Save “${this.title}” as ${label}`,
    });
  }
}

function paint(canvas: HTMLCanvasElement, plot: Plot, raster: Raster, colour: (name: string) => Rgb, ratio: number): void {
  canvas.width = Math.round(plot.width * ratio);
  canvas.height = Math.round(plot.height * ratio);
  const context = canvas.getContext("2d");
  if (context) {
    context.scale(ratio, ratio);
    raster.paint(context, colour, ratio);
  }
}

/** In percent, so that the canvas stays below its axes when print scales the picture. */
function place(canvas: HTMLCanvasElement, plot: Plot, svg: Mark): void {
  const percent = (part: number, whole: string | number): string => `${(part / Number(whole)) * 100}%`;
  canvas.style.left = percent(plot.left, svg.attributes["width"]);
  canvas.style.width = percent(plot.width, svg.attributes["width"]);
  canvas.style.top = percent(plot.top, svg.attributes["height"]);
  canvas.style.height = percent(plot.height, svg.attributes["height"]);
}

/** Hands a file to the reader. */
export function save(name: string, type: string, content: string): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  // The browser reads the address after this function returns.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
