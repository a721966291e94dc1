/** The script of `dwell view`. */

import { openForPrint } from "../page_parts.ts";
import { watchTheme } from "../theme.ts";
import { App } from "./app.ts";
import { watchPointer } from "./pointer.ts";

const root = document.getElementById("dwell") ?? document.body;
watchTheme(() => globalThis.dwell?.charts.forEach((chart) => chart.recolour()));
watchPointer();
openForPrint(root);
new App(root).start();
