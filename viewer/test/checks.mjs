// What holds for every page, in a file or from a server.

import assert from "node:assert/strict";

/** What a screen reader needs. */
export async function checkAccess(page) {
  const problems = await page.evaluate(() => {
    const bad = (selector, isBad) =>
      [...document.querySelectorAll(selector)].filter(isBad).map((each) => `${selector}: ${each.outerHTML.slice(0, 120)}`);
    const levels = [...document.querySelectorAll("h1, h2, h3")].map((heading) => Number(heading.tagName[1]));
    return [
      ...bad("svg[role=img]", (each) => !each.getAttribute("aria-label")),
      ...bad("th", (each) => !each.hasAttribute("scope")),
      ...bad("button", (each) => !(each.getAttribute("aria-label") ?? each.textContent).trim()),
      ...bad("section", (each) => !document.getElementById(each.getAttribute("aria-labelledby"))),
      ...bad("[tabindex='0']", (each) => !each.getAttribute("aria-label")),
      ...bad("[style]", (each) => each.getAttribute("style").includes("url(")),
      ...levels.flatMap((level, at) => (at > 0 && level > levels[at - 1] + 1 ? [`heading ${at} skips a level`] : [])),
    ];
  });
  assert.deepEqual(problems, []);
}

/** Markup in names is shown, not obeyed; the page has the scripts that it should have. */
export async function checkHostileNames(page, expectedScripts) {
  const { images, scripts, handlers } = await page.evaluate(() => ({
    images: document.querySelectorAll("main img, main iframe, main object").length,
    scripts: document.querySelectorAll("script").length,
    handlers: [...document.querySelectorAll("*")].filter((each) => [...each.attributes].some(({ name }) => name.startsWith("on")))
      .length,
  }));
  assert.deepEqual({ images, scripts, handlers }, { images: 0, scripts: expectedScripts, handlers: 0 });
}
