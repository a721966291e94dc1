// Starts Chromium as the tests need it: that of DWELL_CHROMIUM, else the first of the known names in PATH.

import { accessSync, constants } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

/** A machine that compiles at the same time is slow. */
export const PATIENCE_MS = 180_000;
export const WIDE = { width: 1200, height: 900 };
export const NARROW = { width: 360, height: 740 };

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Lets `use` work with a browser of a fresh profile, which gets `more` arguments, and closes it in any case. */
export async function withBrowser(use, more = []) {
  const profile = await mkdtemp(join(tmpdir(), "dwell-browser-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: executable(),
    args: [...ARGUMENTS, ...more],
    viewport: WIDE,
    acceptDownloads: true,
  });
  try {
    return await use(browser);
  } finally {
    await browser.close();
    await rm(profile, { recursive: true, force: true });
  }
}

function executable() {
  const named = process.env.DWELL_CHROMIUM;
  const folders = (process.env.PATH ?? "").split(delimiter);
  const found = named || NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
  if (!found) {
    throw new Error(`no Chromium: none of ${NAMES.join(", ")} is in PATH; set DWELL_CHROMIUM to its path`);
  }
  return found;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
