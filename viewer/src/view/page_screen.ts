/** A page from the server: loads it, draws it, and draws it again while it changes. */

import type { Child } from "../dom.ts";
import { showPage, type Handle, type Surroundings } from "../page_parts.ts";
import type { Page } from "../page.ts";
import { ApiError, getPage, type PageAnswer } from "./client.ts";
import { keepingPlace } from "./keep_place.ts";
import { backLink, loading, problem } from "./messages.ts";
import { whenReleased } from "./pointer.ts";
import { Poller } from "./poller.ts";
import type { Route } from "./routes.ts";
import type { Screen, Stage } from "./screen.ts";

export abstract class PageScreen implements Screen {
  readonly #poller: Poller;
  #etag: string | null = null;
  #page: Page | null = null;

  constructor(
    readonly stage: Stage,
    /** Parameters that name the page. */
    readonly names: [string, string][],
    /** What it is, for messages. */
    readonly what: string,
    public section: string,
  ) {
    this.#poller = new Poller({
      ask: (signal) => this.#ask(signal),
      isRetried: (error) => this.isRetried(error),
      failed: (error, retry_s) => this.#failed(error, retry_s),
    });
    stage.root.replaceChildren(loading(what));
    stage.setTitle(what);
    void this.#poller.now();
  }

  abstract follow(route: Route): boolean;
  /** Address of a section of this page. */
  protected abstract linkTo(section: string): string;
  protected abstract around(page: Page): Pick<Surroundings, "sectionsOfRun">;

  get page(): Page | null {
    return this.#page;
  }

  refresh(): void {
    // A page that is final stays as it is; one that failed is tried again.
    if (this.#page === null) {
      void this.#poller.now();
    }
  }

  stop(): void {
    this.#poller.stop();
  }

  /** Stands above the title. */
  protected above(): Child[] {
    return [backLink()];
  }

  /** When to ask again; null if not at all. */
  protected nextIn({ refresh_s }: PageAnswer): number | null {
    return refresh_s;
  }

  protected isRetried(error: unknown): boolean {
    return error instanceof ApiError && error.isPassing;
  }

  /** The page was drawn, or is the same as before. */
  protected updated(handle: Handle | null): void {
    if (handle !== null) {
      this.stage.expose(handle);
    }
  }

  /** The page is there, and what is new of it is not. */
  protected lost(_error: unknown, _retry_s: number | null): void {}

  protected askNow(): void {
    void this.#poller.now();
  }

  async #ask(signal: AbortSignal): Promise<number | null> {
    const answer = await getPage(this.names, this.#etag, signal);
    // A drag is not cut off.
    await whenReleased();
    if (!signal.aborted) {
      this.#etag = answer.etag;
      this.updated(answer.page === null ? null : this.#draw(answer.page));
    }
    return this.nextIn(answer);
  }

  #draw(page: Page): Handle {
    const isFirst = this.#page === null;
    this.#page = page;
    const { root } = this.stage;
    const around = { above: this.above(), linkTo: (section: string) => this.linkTo(section), ...this.around(page) };
    const draw = (): Handle => showPage(root, page, around);
    const handle = isFirst ? draw() : keepingPlace(root, draw);
    this.#scrollByContents();
    this.stage.setTitle(page.title);
    if (isFirst) {
      this.stage.ready(this.section);
    }
    return handle;
  }

  /** The contents scroll without a new address, which would be one step more on the way back. */
  #scrollByContents(): void {
    this.stage.root.querySelectorAll<HTMLAnchorElement>(".contents a").forEach((link, at) => {
      link.addEventListener("click", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
          event.preventDefault();
          scrollToSection(this.stage.root.querySelectorAll("section")[at]);
        }
      });
    });
  }

  #failed(error: unknown, retry_s: number | null): void {
    if (this.#page !== null) {
      this.lost(error, retry_s);
      return;
    }
    this.stage.root.replaceChildren(...problem(this.above(), `Cannot show ${this.what}`, error, retry_s, () => this.askNow()));
  }
}

/** The heading gets the focus, so that the keyboard goes on from there. */
export function scrollToSection(section: HTMLElement | null | undefined): void {
  const heading = section?.querySelector("h2");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
  section?.scrollIntoView();
}
