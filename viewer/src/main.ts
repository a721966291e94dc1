/** The script of a report: shows the page that the document holds. */

import { readPage } from "./data.ts";
import { failure, messageOf, openForPrint, showPage } from "./page_parts.ts";
import { watchTheme } from "./theme.ts";

async function start(): Promise<void> {
  const root = document.getElementById("dwell") ?? document.body;
  try {
    const shown = showPage(root, await readPage());
    watchTheme(() => shown.charts.forEach((chart) => chart.recolour()));
    openForPrint(root);
    globalThis.dwell = shown;
  } catch (error) {
    root.replaceChildren(failure(`This page cannot be shown: ${messageOf(error)}.`));
    throw error;
  }
}

void start();
