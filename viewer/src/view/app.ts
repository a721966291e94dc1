/** Goes from address to address: each is a screen, with the way back that browsers know. */

import type { Handle } from "../page_parts.ts";
import { ListScreen } from "./list_screen.ts";
import { notFound } from "./messages.ts";
import { ComparisonScreen, ExperimentScreen } from "./other_screens.ts";
import { scrollToSection } from "./page_screen.ts";
import { formatRoute, parseRoute, type Route } from "./routes.ts";
import { RunScreen } from "./run_screen.ts";
import type { Screen, Stage } from "./screen.ts";

const NAME = "dwell";

/** What the history of the browser keeps of an address. */
interface Visit {
  key: number;
}

export class App implements Stage {
  #screen: Screen | null = null;
  /** Where the page was scrolled to, by visit. */
  readonly #scrolled = new Map<number, number>();
  #visit: Visit = { key: 0 };
  #isFirst = true;

  constructor(readonly root: HTMLElement) {}

  start(): void {
    // Pages come later than the browser scrolls.
    history.scrollRestoration = "manual";
    addEventListener("hashchange", () => this.#navigate());
    addEventListener("focus", () => this.#screen?.refresh());
    this.#navigate();
  }

  setTitle(title: string): void {
    document.title = `${title} · ${NAME}`;
  }

  replaceRoute(route: Route): void {
    history.replaceState(history.state, "", formatRoute(route));
  }

  redirect(route: Route): void {
    this.replaceRoute(route);
    this.#open(route);
  }

  go(route: Route): void {
    location.hash = formatRoute(route);
  }

  ready(section: string): void {
    const before = this.#scrolled.get(this.#visit.key);
    const heading = this.root.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    // Whoever opens the page first begins at its top; a reader who goes on is told where they are.
    if (!this.#isFirst) {
      heading?.focus({ preventScroll: true });
    }
    this.#isFirst = false;
    scrollTo({ top: before ?? 0, behavior: "instant" });
    if (before === undefined && section !== "") {
      scrollToSection(document.getElementById(section));
    }
  }

  expose(handle: Handle): void {
    globalThis.dwell = handle;
  }

  #navigate(): void {
    this.#scrolled.set(this.#visit.key, scrollY);
    this.#visit = this.#currentVisit();
    const route = parseRoute(location.hash);
    if (route === null || this.#screen?.follow(route) !== true) {
      this.#open(route);
    }
  }

  /** A new address gets a key; one that the reader comes back to has it. */
  #currentVisit(): Visit {
    const known = history.state as Visit | null;
    const visit = known ?? { key: performance.timeOrigin + performance.now() };
    history.replaceState(visit, "");
    return visit;
  }

  #open(route: Route | null): void {
    this.#screen?.stop();
    globalThis.dwell = undefined;
    this.#screen = route === null ? null : this.#screenOf(route);
    if (route === null) {
      this.setTitle("Not found");
      this.root.replaceChildren(...notFound());
      this.ready("");
    }
  }

  #screenOf(route: Route): Screen {
    switch (route.kind) {
      case "list":
        return new ListScreen(this, route);
      case "run":
        return new RunScreen(this, route);
      case "compare":
        return new ComparisonScreen(this, route);
      case "experiment":
        return new ExperimentScreen(this, route);
    }
  }
}
