/** Asks the server again and again: after the time that an answer names, and ever more seldom while none comes. */

const MOST_RETRY_S = 30;

/** Seconds until the next attempt after so many failures in a row. */
export function retryDelay(failures: number): number {
  return Math.min(MOST_RETRY_S, 2 ** (failures - 1));
}

export interface PollerOptions {
  /** Asks, shows the answer and gives the seconds until the next time; null if there is no need. */
  ask: (signal: AbortSignal) => Promise<number | null>;
  isRetried: (error: unknown) => boolean;
  /** Hears of every failure; `retry_s` is null if it is not tried again. */
  failed: (error: unknown, retry_s: number | null) => void;
}

export class Poller {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #asking = new AbortController();
  #failures = 0;

  constructor(readonly options: PollerOptions) {}

  /** Asks at once; an older question is given up. */
  async now(): Promise<void> {
    this.stop();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    try {
      const next_s = await this.options.ask(signal);
      this.#failures = 0;
      this.#schedule(next_s, signal);
    } catch (error) {
      if (!signal.aborted) {
        this.#failures += 1;
        const retry_s = this.options.isRetried(error) ? retryDelay(this.#failures) : null;
        this.options.failed(error, retry_s);
        this.#schedule(retry_s, signal);
      }
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#asking.abort();
  }

  #schedule(after_s: number | null, signal: AbortSignal): void {
    if (after_s !== null && !signal.aborted) {
      this.#timer = setTimeout(() => void this.now(), after_s * 1000);
    }
  }
}
