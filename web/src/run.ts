/** The page without controls, for a program that drives the browser. */

import { readConfig, runtimeUrls, sourceOf } from "./config.ts";
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

const config = readConfig();
const session = config.then((read) => new Session(ENGINES, runtimeUrls(read), report));

window.dwellRun = async (job) => {
  const offered = (await config).models.find(({ url }) => url === job.model.url);
  await (await session).run(offered ? { ...job, model: { ...sourceOf(offered), ...job.model } } : job);
};
window.dwellStop = () => void session.then((each) => each.stop());
window.dwellUnload = async () => (await session).unload();
window.dwellMark = (ms) => {
  const end = performance.now() + ms;
  while (performance.now() < end) {
    // Burns processor time: the driver finds this page's process by it.
  }
};
