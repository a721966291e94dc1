/** The page of a run: the sections of a report, finer detail where the reader zooms in, and single accesses. */

import { element, type Child } from "../dom.ts";
import { count, duration } from "../format.ts";
import { MapState } from "../map/memory_map.ts";
import { messageOf, RUN_VIEWS, wholeOf, type Handle, type Surroundings } from "../page_parts.ts";
import type { RunPage } from "../page.ts";
import { TimeWindow } from "../time_window.ts";
import type { AddChart } from "../view.ts";
import { memoryMapView } from "../views/memory_map.ts";
import type { Access } from "./access_rows.ts";
import { Accesses } from "./accesses.ts";
import type { EntryState } from "./api.ts";
import { Badge } from "./badge.ts";
import { ApiError, getRows, getWindow, type PageAnswer } from "./client.ts";
import { backLink } from "./messages.ts";
import { PageScreen, scrollToSection } from "./page_screen.ts";
import { Refinement } from "./refinement.ts";
import { formatRoute, ONLY_RUN, type Route, type RunRoute } from "./routes.ts";
import type { Stage } from "./screen.ts";
import { isUnderWay } from "./states.ts";
import { followed } from "./window_span.ts";

/** A run that is under way is asked for after so long if the server does not say when. */
const REFRESH_S = 2;
/** Browsers refuse addresses that change too often. */
const ADDRESS_PAUSE_MS = 300;

/** With what only a run from a server has. */
export interface RunHandle extends Handle {
  /** The accesses that are listed. */
  accesses: () => readonly Access[];
}

export class RunScreen extends PageScreen {
  readonly #badge = new Badge();
  readonly #accesses: Accesses;
  readonly #mapState = new MapState();
  readonly #note = element("p", { class: "note detail", role: "status" });
  #route: RunRoute;
  #window: TimeWindow | null = null;
  #refinement: Refinement | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(stage: Stage, route: RunRoute) {
    super(stage, [["run", route.path]], `run ${route.path}`, route.section);
    this.#route = route;
    this.#accesses = new Accesses((span, limit, signal) => getRows(route.path, span, limit, signal));
  }

  follow(route: Route): boolean {
    if (route.kind !== "run" || route.path !== this.#route.path) {
      return false;
    }
    this.#route = route;
    if (this.#window !== null) {
      this.#window.show(route.span ?? this.#window.whole);
    }
    scrollToSection(document.getElementById(route.section));
    return true;
  }

  override refresh(): void {
    if (this.page === null || isUnderWay(this.#state)) {
      this.askNow();
    }
  }

  override stop(): void {
    super.stop();
    clearTimeout(this.#timer);
    this.#badge.stop();
    this.#refinement?.stop();
    this.#accesses.stop();
  }

  get #state(): EntryState {
    return (this.page?.runs[0]?.state ?? "complete") as EntryState;
  }

  protected linkTo(section: string): string {
    return formatRoute({ ...this.#route, section });
  }

  protected override above(): Child[] {
    const bar = this.#route.path === ONLY_RUN ? null : backLink();
    return [element("div", { class: "bar" }, bar, this.#badge.element)];
  }

  protected override nextIn(answer: PageAnswer): number | null {
    return answer.refresh_s ?? (isUnderWay(this.#state) ? REFRESH_S : null);
  }

  /** While a run is written there are moments at which it cannot be read. */
  protected override isRetried(error: unknown): boolean {
    return isUnderWay(this.#state) ? !(error instanceof ApiError && error.isRefusal) : super.isRetried(error);
  }

  protected around(): Pick<Surroundings, "sectionsOfRun"> {
    return { sectionsOfRun: (run, add) => this.#sections(run, add) };
  }

  protected override updated(handle: Handle | null): void {
    this.#badge.updated(this.#state);
    if (handle === null) {
      return;
    }
    handle.charts.get("memory_map")?.frame.before(this.#note);
    const exposed: RunHandle = { ...handle, accesses: () => this.#accesses.accesses };
    this.stage.expose(exposed);
  }

  protected override lost(error: unknown, retry_s: number | null): void {
    this.#badge.lost(messageOf(error), retry_s);
  }

  #sections(run: RunPage, add: AddChart): (HTMLElement | null)[] {
    const window = this.#windowOf(run);
    const ask = getWindow.bind(null, this.#route.path);
    const refinement = new Refinement(run, window, ask, this.#refinement);
    this.#adopt(run, window, refinement);
    const context = { run, window, detail: refinement, mapState: this.#mapState, add };
    const hasAccesses = run.overview.rows > 0;
    return RUN_VIEWS.flatMap((view) => [view(context), view === memoryMapView && hasAccesses ? this.#accesses.section : null]);
  }

  #adopt(run: RunPage, window: TimeWindow, refinement: Refinement): void {
    const places = this.#refinement?.run.overview.places.length;
    if (places !== undefined && places !== run.overview.places.length) {
      // Tensors are chosen by their number, and numbers have changed.
      this.#mapState.path = this.#mapState.path.slice(0, 2);
    }
    Object.assign(this.#mapState, { hovered: null });
    this.#window = window;
    this.#refinement = refinement;
    refinement.onDetail(() => this.#describe(refinement));
    this.#describe(refinement);
    this.#accesses.attach({ run, window, refinement });
    window.onWindow(() => this.#remember(window));
  }

  #windowOf(run: RunPage): TimeWindow {
    const before = this.#window;
    const window = new TimeWindow(wholeOf(run));
    if (before !== null) {
      window.show(followed(before.shown, before.whole, window.whole));
      window.point(before.cursor_s);
    } else if (this.#route.span !== null) {
      window.show(this.#route.span);
    }
    return window;
  }

  /** Writes the window into the address, so that it can be kept and shared. */
  #remember(window: TimeWindow): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#route = { ...this.#route, span: window.isWhole ? null : window.shown };
      this.stage.replaceRoute(this.#route);
    }, ADDRESS_PAUSE_MS);
  }

  /** Says above the map how fine it is. */
  #describe(refinement: Refinement): void {
    const { state, window } = refinement;
    const cell = duration(refinement.tilesFor(window.shown).bin_ns * 1e-9);
    switch (state.kind) {
      case "whole":
        this.#note.textContent = `Each column is ${cell}. Zoom in for finer columns.`;
        break;
      case "asking":
        this.#note.textContent = `Each column is ${cell}. Loading finer columns …`;
        break;
      case "refined":
        this.#note.textContent = `Each column is ${cell}.`;
        break;
      case "too_many":
        this.#note.textContent =
          `Each column is ${cell}. This window holds up to ${count(state.rows_at_most)} accesses; ` +
          `zoom in to ${count(state.most_rows)} or fewer for finer columns.`;
        break;
      case "failed":
        this.#note.textContent = `Each column is ${cell}. Finer columns could not be loaded: ${state.message}`;
    }
  }
}
