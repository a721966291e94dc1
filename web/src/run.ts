/** The page without controls, for a program that drives the browser. */

import { readConfig, runtimeUrls } from "./config.ts";
import { ENGINES } from "./engines/all.ts";
import { Session, type Event, type Job } from "./session.ts";

declare global {
  interface Window {
    dwellRun: (job: Job) => Promise<void>;
    dwellStop: () => void;
    dwellUnload: () => Promise<void>;
    dwellMark: (ms: number) => void;
    /** Set by the driver; gets each event as JSON. */
    dwellReport?: (text: string) => void;
  }
}

function report(event: Event): void {
  const text = JSON.stringify(event);
  if (window.dwellReport) {
    window.dwellReport(text);
  } else {
    document.dispatchEvent(new CustomEvent("dwell-report", { detail: text }));
  }
}

const session = readConfig().then((config) => new Session(ENGINES, runtimeUrls(config), report));

window.dwellRun = async (job) => (await session).run(job);
window.dwellStop = () => void session.then((each) => each.stop());
window.dwellUnload = async () => (await session).unload();
window.dwellMark = (ms) => {
  const end = performance.now() + ms;
  while (performance.now() < end) {
    // Burns processor time: the driver finds this page's process by it.
  }
};
