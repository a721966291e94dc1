/** The single accesses of the time that is shown, where they are few enough to be read. */

import { save } from "../chart.ts";
import { toCsv } from "../csv.ts";
import { button, element, scrolling, section, swatch, type Child } from "../dom.ts";
import { bytes, count, counted, moment } from "../format.ts";
import { regionColour } from "../colours.ts";
import { messageOf } from "../page_parts.ts";
import type { RunPage } from "../page.ts";
import { regionTitle } from "../region_titles.ts";
import { LEAST_S, length, type Span, type TimeWindow } from "../time_window.ts";
import { accessTable, decodeAccesses, secondsSince, type Access } from "./access_rows.ts";
import type { NsSpan, RowsAnswer } from "./client.ts";
import type { Refinement } from "./refinement.ts";
import { exactSpan } from "./window_span.ts";

/** Rows that a reader still goes through. */
export const MOST_ROWS = 1000;
/** The number of accesses is known for a little more than is shown, so a few too many are asked for all the same. */
const TRIED_ROWS = 2 * MOST_ROWS;
/** Like other questions, rows are asked for when the window rests. */
const PAUSE_MS = 200;
/** A single access is shown with so much of the window around it. */
const CLOSER = 1 / 8;

const COLUMNS = [
  ["Time", "Since the beginning of the run; click to zoom to the access"],
  ["Access", "load or store"],
  ["Memory", "Kind of memory"],
  ["Layer", "Layer of the tensor"],
  ["Tensor", "Tensor that owns the bytes"],
  ["Address", "First byte"],
  ["Size", "Bytes from the address on"],
  ["Step", "0 for a prompt, n for the n-th decode step"],
  ["Token", "Number of the token that the computation gives"],
  ["Operation", "What made the access"],
] as const;

export type AskRows = (span: NsSpan, limit: number, signal: AbortSignal) => Promise<RowsAnswer>;

/** What the section is about; all of it changes when the page is drawn again. */
interface Subject {
  run: RunPage;
  window: TimeWindow;
  refinement: Refinement;
}

/** Lives as long as the page is open, so that rows that are shown stay when the rest is drawn again. */
export class Accesses {
  readonly section: HTMLElement;
  readonly #message = element("span", { role: "status" });
  readonly #actions = element("span", { class: "actions" });
  readonly #rows = element("div");
  #subject: Subject | null = null;
  #asking = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #shown: { span: NsSpan; accesses: Access[] } | null = null;

  constructor(readonly ask: AskRows) {
    this.section = section(
      "accesses",
      "Accesses",
      "Which loads and stores happen in the time window? One row each, in order; the time is when their operation finished.",
      element("p", { class: "controls" }, this.#message, this.#actions),
      this.#rows,
    );
  }

  /** The accesses that the table shows. */
  get accesses(): readonly Access[] {
    return this.#shown?.accesses ?? [];
  }

  attach(subject: Subject): void {
    this.#subject = subject;
    subject.refinement.onDetail(() => this.#update(subject));
    this.#update(subject);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asking.abort();
  }

  #update(subject: Subject): void {
    if (subject !== this.#subject) {
      return;
    }
    const { run, window, refinement } = subject;
    const span = exactSpan(window.shown, run.timeline.begin_ns);
    if (this.#shown !== null && isSame(this.#shown.span, span) && span.end_ns <= run.overview.last_ns) {
      return;
    }
    this.stop();
    const { state, rowsAtMost } = refinement;
    if (state.kind === "failed") {
      this.#say(`The accesses could not be counted: ${state.message}`);
    } else if (rowsAtMost === null) {
      this.#say("Counting the accesses …");
    } else if (rowsAtMost > TRIED_ROWS && !isDeepest(window.shown)) {
      this.#sayTooMany(subject, `${state.kind === "whole" ? "" : "up to "}${counted(rowsAtMost, "access", "accesses")}`);
    } else {
      this.#timer = setTimeout(() => void this.#load(subject, span), PAUSE_MS);
    }
  }

  async #load(subject: Subject, span: NsSpan): Promise<void> {
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    try {
      const { bytes: stream, hasMore } = await this.ask(span, MOST_ROWS, signal);
      if (signal.aborted) {
        return;
      }
      if (hasMore && !isDeepest(subject.window.shown)) {
        this.#sayTooMany(subject, `more than ${counted(MOST_ROWS, "access", "accesses")}`);
      } else {
        this.#show(subject, span, decodeAccesses(stream), hasMore);
      }
    } catch (error) {
      if (!signal.aborted) {
        this.#say(`The accesses could not be loaded: ${messageOf(error)}`);
      }
    }
  }

  #say(text: string, ...actions: Child[]): void {
    this.#shown = null;
    this.#message.textContent = text;
    this.#actions.replaceChildren(...actions.filter((action) => action !== null));
    this.#rows.replaceChildren();
  }

  #sayTooMany(subject: Subject, many: string): void {
    this.#say(
      `This window holds ${many}. Zoom in to ${count(MOST_ROWS)} or fewer to list them here.`,
      button(`Zoom to the first ${count(MOST_ROWS)}`, () => void this.#zoomToFirst(subject)),
    );
  }

  /** Shows the time of the first accesses of the window. */
  async #zoomToFirst({ run, window }: Subject): Promise<void> {
    this.stop();
    this.#asking = new AbortController();
    const { begin_ns } = run.timeline;
    try {
      const { bytes: stream, hasMore } = await this.ask(exactSpan(window.shown, begin_ns), MOST_ROWS, this.#asking.signal);
      const span = spanOfFirst(decodeAccesses(stream), hasMore);
      if (span !== null) {
        window.show({ begin_s: (span.begin_ns - begin_ns) / 1e9, end_s: (span.end_ns - begin_ns) / 1e9 });
      }
    } catch (error) {
      this.#say(`The accesses could not be loaded: ${messageOf(error)}`);
    }
  }

  #show({ run, window }: Subject, span: NsSpan, accesses: Access[], hasMore: boolean): void {
    const { begin_s, end_s } = window.shown;
    const [from, to] = [begin_s, end_s].map((at_s) => moment(at_s, end_s - begin_s));
    const what = accesses.length === 0 ? "Nothing was accessed" : counted(accesses.length, "access", "accesses");
    this.#say(
      `${hasMore ? "The first " : ""}${what} from ${from} to ${to}.`,
      accesses.length === 0
        ? null
        : button("CSV", () => save("dwell-accesses.csv", "text/csv", toCsv(accessTable(accesses, run.timeline.begin_ns))), {
            "aria-label": "Save the accesses as CSV",
          }),
    );
    this.#shown = { span, accesses };
    if (accesses.length > 0) {
      const table = accessesTable(run, accesses, window.shown, (at_s) => window.show(around(at_s, window.shown)));
      const box = scrolling("Accesses", table);
      box.classList.add("tall");
      this.#rows.replaceChildren(box);
    }
  }
}

/** Many operations may finish at the same moment, and no zoom takes them apart. */
function isDeepest(shown: Span): boolean {
  return length(shown) <= 2 * LEAST_S;
}

function isSame(left: NsSpan, right: NsSpan): boolean {
  return left.begin_ns === right.begin_ns && left.end_ns === right.end_ns;
}

/** The time of accesses that are all of it; those at the last moment are left out where there may be more of them. */
export function spanOfFirst(accesses: readonly Access[], hasMore: boolean): NsSpan | null {
  const [first, last] = [accesses.at(0), accesses.at(-1)];
  if (first === undefined || last === undefined) {
    return null;
  }
  const before = accesses.filter(({ timestamp_ns }) => timestamp_ns < last.timestamp_ns).at(-1);
  const end = hasMore ? (before ?? last) : last;
  return { begin_ns: first.timestamp_ns, end_ns: Math.max(end.timestamp_ns, first.timestamp_ns + 1) };
}

function around(at_s: number, shown: Span): Span {
  const half = (length(shown) * CLOSER) / 2;
  return { begin_s: at_s - half, end_s: at_s + half };
}

function accessesTable(run: RunPage, accesses: readonly Access[], shown: Span, zoomTo: (at_s: number) => void): HTMLTableElement {
  const head = element("tr", {}, ...COLUMNS.map(([name, meaning]) => element("th", { scope: "col", title: meaning }, name)));
  const rows = accesses.map((access) => accessRow(run, access, length(shown), zoomTo));
  return element("table", { class: "accesses" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

function accessRow(run: RunPage, access: Access, span_s: number, zoomTo: (at_s: number) => void): HTMLElement {
  const at_s = secondsSince(run.timeline.begin_ns, access);
  const time = moment(at_s, span_s);
  const cells: Child[] = [
    button(time, () => zoomTo(at_s), { class: "link", "aria-label": `${time}: zoom to this access` }),
    access.op_type,
    element("span", {}, swatch(regionColour(access.region_type)), regionTitle(run, access.region_type)),
    numberText(access.layer),
    access.tensor,
    element("code", {}, access.address),
    element("span", { title: `${access.size_bytes} bytes` }, bytes(access.size_bytes)),
    numberText(access.step),
    numberText(access.token_index),
    access.symbol,
  ];
  return element("tr", {}, ...cells.map((cell, at) => element("td", { class: COLUMNS[at][0].toLowerCase() }, cell)));
}

function numberText(value: number | null): string {
  return count(value);
}
