/** Zooms and moves the time window of a chart by pointer, wheel and keyboard. */

import { linear } from "./axes.ts";
import type { Chart } from "./chart.ts";
import { element } from "./dom.ts";
import type { TimeWindow } from "./time_window.ts";

export const GESTURE_HELP =
  "Drag to zoom in, shift-drag to move, double-click for the whole run. Click, then turn the wheel or use the keys + − ← → 0; " +
  "shift with an arrow key moves the reading line.";

/** A drag shorter than this is a click. */
const CLICK_PIXELS = 4;
const WHEEL_SPEED = 0.0015;
const KEY_ZOOM = 1.5;
const KEY_PAN = 0.2;
const KEY_CURSOR = 0.01;

interface Point {
  x: number;
  y: number;
}

/** Where a drag began. With shift it moves the window, else it chooses a part of it. */
interface Drag {
  x: number;
  time_s: number;
  moves: boolean;
}

/** Makes a chart react; `click` hears of presses that are no drags. */
export function addGestures(chart: Chart, window: TimeWindow, click: (at: Point) => void): void {
  const { frame } = chart;
  const gestures = new Gestures(chart, window, click);
  frame.append(gestures.brush);
  frame.tabIndex = 0;
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", `${chart.title}. ${GESTURE_HELP}`);
  frame.addEventListener("pointerdown", (event) => gestures.press(event));
  frame.addEventListener("pointermove", (event) => gestures.move(event));
  frame.addEventListener("pointerup", (event) => gestures.release(event));
  frame.addEventListener("pointercancel", () => gestures.end());
  frame.addEventListener("pointerleave", () => window.point(null));
  frame.addEventListener("dblclick", () => window.reset());
  frame.addEventListener("wheel", (event) => gestures.wheel(event), { passive: false });
  frame.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && pressKey(event, window)) {
      event.preventDefault();
    }
  });
}

class Gestures {
  readonly brush = element("div", { class: "brush", hidden: true });
  #drag: Drag | null = null;

  constructor(
    readonly chart: Chart,
    readonly window: TimeWindow,
    readonly click: (at: Point) => void,
  ) {}

  press(event: PointerEvent): void {
    if (event.button === 0) {
      const { x } = this.chart.locate(event);
      this.#drag = { x, time_s: this.#timeAt(x), moves: event.shiftKey };
      this.chart.frame.setPointerCapture(event.pointerId);
    }
  }

  move(event: PointerEvent): void {
    const { x } = this.chart.locate(event);
    if (this.#drag?.moves) {
      this.window.pan((this.#drag.x - x) / this.chart.drawing.plot.width);
      this.#drag.x = x;
      return;
    }
    this.window.point(this.#timeAt(x));
    if (this.#drag) {
      this.#showBrush(this.#drag.x, x);
    }
  }

  release(event: PointerEvent): void {
    const at = this.chart.locate(event);
    if (this.#drag && !this.#drag.moves) {
      this.#choose(this.#drag, at);
    }
    this.end();
  }

  end(): void {
    this.#drag = null;
    this.brush.hidden = true;
  }

  wheel(event: WheelEvent): void {
    const { window } = this;
    const zooms = Math.abs(event.deltaY) >= Math.abs(event.deltaX);
    // A page that is scrolled past a chart must not get stuck in it, so the wheel zooms only where the reader asked for it.
    const isAskedFor = document.activeElement === this.chart.frame || event.ctrlKey || event.metaKey;
    const isMeant = zooms ? isAskedFor && !(event.deltaY > 0 && window.isWhole) : !window.isWhole;
    if (!isMeant) {
      return;
    }
    event.preventDefault();
    if (zooms) {
      window.zoom(Math.exp(event.deltaY * WHEEL_SPEED), this.#timeAt(this.chart.locate(event).x));
    } else {
      window.pan(event.deltaX / this.chart.drawing.plot.width);
    }
  }

  #timeAt(x: number): number {
    const { plot } = this.chart.drawing;
    const { begin_s, end_s } = this.window.shown;
    return linear([plot.left, plot.left + plot.width], [begin_s, end_s])(x);
  }

  #choose(from: Drag, at: Point): void {
    if (Math.abs(at.x - from.x) < CLICK_PIXELS) {
      this.click(at);
      return;
    }
    const to_s = this.#timeAt(at.x);
    this.window.show({ begin_s: Math.min(from.time_s, to_s), end_s: Math.max(from.time_s, to_s) });
  }

  #showBrush(from: number, to: number): void {
    const { plot } = this.chart.drawing;
    const inside = (x: number): number => Math.min(Math.max(x, plot.left), plot.left + plot.width);
    const { style } = this.brush;
    this.brush.hidden = Math.abs(to - from) < CLICK_PIXELS;
    style.left = `${Math.min(inside(from), inside(to))}px`;
    style.width = `${Math.abs(inside(to) - inside(from))}px`;
    style.top = `${plot.top}px`;
    style.height = `${plot.height}px`;
  }
}

/** Says whether the key means anything. */
function pressKey(event: KeyboardEvent, window: TimeWindow): boolean {
  switch (event.key) {
    case "+":
    case "=":
      window.zoom(1 / KEY_ZOOM);
      return true;
    case "-":
    case "_":
    case "−":
      window.zoom(KEY_ZOOM);
      return true;
    case "0":
      window.reset();
      return true;
    case "ArrowLeft":
    case "ArrowRight":
      arrow(event.key === "ArrowLeft" ? -1 : 1, event.shiftKey, window);
      return true;
    default:
      return false;
  }
}

function arrow(direction: number, movesCursor: boolean, window: TimeWindow): void {
  if (!movesCursor) {
    window.pan(direction * KEY_PAN);
    return;
  }
  const { begin_s, end_s } = window.shown;
  const from_s = window.cursor_s ?? (begin_s + end_s) / 2;
  window.point(Math.min(end_s, Math.max(begin_s, from_s + direction * KEY_CURSOR * (end_s - begin_s))));
}
