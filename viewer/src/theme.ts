/** Light or dark: as the system says unless the reader chooses. */

import { choice } from "./dom.ts";

type Theme = "auto" | "light" | "dark";

let chosen: Theme = "auto";
let tell: () => void = () => undefined;

/** Calls `changed` whenever colours change: canvases hold pixels, not CSS variables. Paper is always light. */
export function watchTheme(changed: () => void): void {
  tell = changed;
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", tell);
  }
}

export function themeChoice(): HTMLElement {
  return choice<Theme>(
    "Colours",
    [
      ["auto", "Auto"],
      ["light", "Light"],
      ["dark", "Dark"],
    ],
    chosen,
    (theme) => {
      chosen = theme;
      document.documentElement.style.colorScheme = theme === "auto" ? "" : theme;
      tell();
    },
  );
}
