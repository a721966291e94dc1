/** The span of time that is shown, shared by every chart with a time axis, and the moment under the pointer. */

export interface Span {
  begin_s: number;
  end_s: number;
}

/** Deepest zoom. Times of accesses are known to about a microsecond. */
export const LEAST_S = 1e-6;

export function length(span: Span): number {
  return span.end_s - span.begin_s;
}

/** The part of `whole` nearest to `span`: moved inside if it fits, else all of it. */
export function within(span: Span, whole: Span): Span {
  const size = Math.min(length(whole), Math.max(length(span), LEAST_S));
  const begin_s = Math.min(Math.max(span.begin_s, whole.begin_s), whole.end_s - size);
  return { begin_s, end_s: begin_s + size };
}

/** `factor` times as long, with the moment `around_s` at the same place on the screen. */
export function zoomed(span: Span, whole: Span, factor: number, around_s: number): Span {
  const size = Math.max(length(span) * factor, LEAST_S);
  const before = length(span) === 0 ? 0.5 : (around_s - span.begin_s) / length(span);
  const begin_s = around_s - before * size;
  return within({ begin_s, end_s: begin_s + size }, whole);
}

/** Moved by a share of its own length. */
export function panned(span: Span, whole: Span, share: number): Span {
  const by = length(span) * share;
  return within({ begin_s: span.begin_s + by, end_s: span.end_s + by }, whole);
}

export class TimeWindow {
  #shown: Span;
  #cursor_s: number | null = null;
  readonly #onWindow = new Set<() => void>();
  readonly #onCursor = new Set<() => void>();

  constructor(readonly whole: Span) {
    this.#shown = whole;
  }

  get shown(): Span {
    return this.#shown;
  }

  get isWhole(): boolean {
    return this.#shown.begin_s === this.whole.begin_s && this.#shown.end_s === this.whole.end_s;
  }

  /** The moment under the pointer; null if there is none. */
  get cursor_s(): number | null {
    return this.#cursor_s;
  }

  show(span: Span): void {
    this.#shown = within(span, this.whole);
    this.#onWindow.forEach((tell) => tell());
  }

  zoom(factor: number, around_s = (this.#shown.begin_s + this.#shown.end_s) / 2): void {
    this.show(zoomed(this.#shown, this.whole, factor, around_s));
  }

  pan(share: number): void {
    this.show(panned(this.#shown, this.whole, share));
  }

  reset(): void {
    this.show(this.whole);
  }

  point(at_s: number | null): void {
    this.#cursor_s = at_s;
    this.#onCursor.forEach((tell) => tell());
  }

  onWindow(tell: () => void): void {
    this.#onWindow.add(tell);
  }

  onCursor(tell: () => void): void {
    this.#onCursor.add(tell);
  }
}
