/** Light or dark: as the system says unless the reader chooses. */

import { choice } from "./dom.ts";

const listeners = new Set<() => void>();

/** Canvases hold pixels, not CSS variables, and are painted again when colours change. Paper is always light. */
export function onThemeChange(tell: () => void): void {
  listeners.add(tell);
}

export function watchTheme(): void {
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", tellAll);
  }
}

export function themeChoice(): HTMLElement {
  return choice(
    "Colours",
    [
      ["auto", "Auto"],
      ["light", "Light"],
      ["dark", "Dark"],
    ],
    "auto",
    (theme) => {
      document.documentElement.style.colorScheme = theme === "auto" ? "" : theme;
      tellAll();
    },
  );
}

function tellAll(): void {
  listeners.forEach((tell) => tell());
}
