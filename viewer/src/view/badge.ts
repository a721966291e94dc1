/** Says that a page is alive: what happens to its run, and how old the numbers are. */

import { element } from "../dom.ts";
import type { EntryState } from "./api.ts";
import { isUnderWay, stateMark } from "./states.ts";

const TICK_MS = 1000;

export class Badge {
  readonly element: HTMLElement;
  /** Changes are read aloud; the age, which changes every second, is not. */
  readonly #status = element("span", { role: "status" });
  readonly #age = element("span", { class: "age" });
  readonly #now: () => number;
  readonly #timer: ReturnType<typeof setInterval>;
  #updated_ms = 0;
  #retry_ms: number | null = null;
  #wasLive = false;

  constructor(now: () => number = Date.now) {
    this.#now = now;
    this.element = element("p", { class: "badge", hidden: true }, this.#status, " ", this.#age);
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /** An answer has come; the run is in this state. */
  updated(state: EntryState): void {
    this.#updated_ms = this.#now();
    this.#retry_ms = null;
    const isLive = isUnderWay(state);
    this.element.hidden = !isLive && !this.#wasLive;
    this.#wasLive ||= isLive;
    if (isLive) {
      this.#say(stateMark(state));
      this.#tick();
    } else {
      this.#say("The recording has ended. This is the whole run.");
      this.#age.textContent = "";
      this.stop();
    }
  }

  /** No answer came. */
  lost(message: string, retry_s: number | null): void {
    this.#retry_ms = retry_s === null ? null : this.#now() + retry_s * 1000;
    this.element.hidden = false;
    this.#say(element("span", { class: "failure" }, message));
    this.#tick();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #say(words: HTMLElement | string): void {
    const text = typeof words === "string" ? words : words.textContent;
    if (this.#status.textContent !== text) {
      this.#status.replaceChildren(words);
    }
  }

  #tick(): void {
    if (this.#retry_ms !== null) {
      const left = Math.max(0, Math.ceil((this.#retry_ms - this.#now()) / 1000));
      this.#age.textContent = left === 0 ? "Trying again …" : `Trying again in ${left} s.`;
    } else if (this.#updated_ms !== 0) {
      this.#age.textContent = `· updated ${ageWords((this.#now() - this.#updated_ms) / 1000)}`;
    }
  }
}

/** `just now`, `12 s ago`, `3 min ago`. */
export function ageWords(age_s: number): string {
  if (age_s < 2) {
    return "just now";
  }
  return age_s < 120 ? `${Math.floor(age_s)} s ago` : `${Math.floor(age_s / 60)} min ago`;
}
