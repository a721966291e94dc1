/** What is shown at an address, and what it may do with the window of the browser. */

import type { Handle } from "../page_parts.ts";
import type { Route } from "./routes.ts";

export interface Screen {
  /** Takes up another address of the same screen, such as another window of time; false if the address is of another screen. */
  follow: (route: Route) => boolean;
  /** Asks the server whether anything is new. */
  refresh: () => void;
  stop: () => void;
}

/** Where a screen is shown. */
export interface Stage {
  root: HTMLElement;
  setTitle: (title: string) => void;
  /** Changes the address of what is shown; the way back does not remember the old one. */
  replaceRoute: (route: Route) => void;
  /** Shows another screen in the place of this one. */
  redirect: (route: Route) => void;
  /** Goes to another address. */
  go: (route: Route) => void;
  /** Everything is in place for the first time: scrolls to a section, or to where the reader was before, and moves the focus. */
  ready: (section: string) => void;
  /** What is found as `dwell` in the console. */
  expose: (handle: Handle) => void;
}
