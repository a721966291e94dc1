/** Finer detail of the time that is shown, from the server. Charts never wait for it. */

import type { DetailSource } from "../detail.ts";
import { messageOf } from "../page_parts.ts";
import type { RunPage, Tiles, Traffic } from "../page.ts";
import type { Span, TimeWindow } from "../time_window.ts";
import type { WindowAnswer } from "./api.ts";
import type { NsSpan } from "./client.ts";
import { tilesInPlaces } from "./refined_tiles.ts";
import { alignedSpan, covers } from "./window_span.ts";

/** A window at rest for so long is one that the reader looks at. */
const PAUSE_MS = 150;
/** Answers that are kept, so that the way back needs no question. */
const MOST_ANSWERS = 8;

export type AskWindow = (span: NsSpan, signal: AbortSignal) => Promise<WindowAnswer>;

/** How far the detail of what is shown has come. */
export type DetailState =
  | { kind: "whole" }
  | { kind: "asking" }
  | { kind: "refined"; rows: number }
  | { kind: "too_many"; rows_at_most: number; most_rows: number }
  | { kind: "failed"; message: string };

/** An answer with its cells in the rows of the run's map. */
interface Answer {
  said: WindowAnswer;
  tiles: Tiles | null;
}

export class Refinement implements DetailSource {
  readonly #answers: Answer[] = [];
  readonly #listeners = new Set<() => void>();
  #asking = new AbortController();
  #asked: NsSpan | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failure: string | null = null;

  /** `before` is the refinement of the same run when it was shorter. */
  constructor(
    readonly run: RunPage,
    readonly window: TimeWindow,
    readonly ask: AskWindow,
    before: Refinement | null = null,
  ) {
    before?.stop();
    before?.final().forEach((said) => this.#keep(said));
    window.onWindow(() => this.#windowChanged());
    this.#windowChanged();
  }

  tilesFor(shown: Span): Tiles {
    const { tiles } = this.run.overview;
    const finer = this.#covering(shown).flatMap((answer) => answer.tiles ?? []);
    return finest(tiles, finer);
  }

  trafficFor(shown: Span): Traffic {
    const { traffic } = this.run.overview;
    const finer = this.#covering(shown).flatMap(({ said }) => said.overview?.traffic ?? []);
    return finest(traffic, finer);
  }

  onDetail(tell: () => void): void {
    this.#listeners.add(tell);
  }

  get state(): DetailState {
    if (this.window.isWhole) {
      return { kind: "whole" };
    }
    if (this.#failure !== null) {
      return { kind: "failed", message: this.#failure };
    }
    const answer = this.#answerFor(this.#wanted());
    if (answer === undefined) {
      return { kind: "asking" };
    }
    const { overview, rows_at_most, most_rows } = answer.said;
    return overview === null ? { kind: "too_many", rows_at_most, most_rows } : { kind: "refined", rows: overview.rows };
  }

  /** Upper bound of the accesses that are shown; null while it is not known. */
  get rowsAtMost(): number | null {
    const { state } = this;
    switch (state.kind) {
      case "whole":
        return this.run.overview.rows;
      case "refined":
        return state.rows;
      case "too_many":
        return state.rows_at_most;
      default:
        return null;
    }
  }

  /** Answers about time that was over when they were given: they stay true while the run grows. */
  final(): WindowAnswer[] {
    return this.#answers.map(({ said }) => said).filter(({ end_ns }) => end_ns <= this.run.overview.last_ns);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asking.abort();
  }

  #wanted(): NsSpan {
    return alignedSpan(this.window.shown, this.run.timeline.begin_ns);
  }

  #windowChanged(): void {
    clearTimeout(this.#timer);
    this.#failure = null;
    const wanted = this.#wanted();
    if (this.#asked !== null && !isSame(this.#asked, wanted)) {
      this.#asking.abort();
      this.#asked = null;
    }
    if (!this.window.isWhole && this.#asked === null && this.#answerFor(wanted) === undefined) {
      this.#timer = setTimeout(() => void this.#request(wanted), PAUSE_MS);
    }
    this.#tell();
  }

  async #request(span: NsSpan): Promise<void> {
    this.#asking = new AbortController();
    this.#asked = span;
    const { signal } = this.#asking;
    try {
      const said = await this.ask(span, signal);
      if (signal.aborted) {
        return;
      }
      this.#keep(said);
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      this.#failure = messageOf(error);
    }
    this.#asked = null;
    this.#tell();
  }

  #keep(said: WindowAnswer): void {
    const tiles = said.overview === null ? null : tilesInPlaces(said.overview, this.run.overview.places);
    this.#answers.push({ said, tiles });
    this.#answers.splice(0, this.#answers.length - MOST_ANSWERS);
  }

  #covering(shown: Span): Answer[] {
    return this.#answers.filter(({ said }) => said.overview !== null && covers(said, shown, this.run.timeline.begin_ns));
  }

  #answerFor(span: NsSpan): Answer | undefined {
    return this.#answers.find(({ said }) => isSame(said, span));
  }

  #tell(): void {
    this.#listeners.forEach((tell) => tell());
  }
}

function isSame(left: NsSpan, right: NsSpan): boolean {
  return left.begin_ns === right.begin_ns && left.end_ns === right.end_ns;
}

/** The one with the shortest bins; the first of equals. */
export function finest<Axis extends { bin_ns: number }>(first: Axis, others: readonly Axis[]): Axis {
  return others.reduce((best, each) => (each.bin_ns < best.bin_ns ? each : best), first);
}
