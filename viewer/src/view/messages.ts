/** What is said instead of a page. */

import { button, element, type Child } from "../dom.ts";
import { failure, masthead, messageOf } from "../page_parts.ts";
import { ApiError } from "./client.ts";
import { formatRoute, LIST } from "./routes.ts";

export function backLink(): HTMLElement {
  return element("nav", { class: "back", "aria-label": "Results" }, element("a", { href: formatRoute(LIST) }, "‹ All results"));
}

export function loading(what: string): HTMLElement {
  return element("p", { class: "loading", role: "status" }, `Loading ${what} …`);
}

/** Why something is not shown, what may help, and a way to try again. */
export function problem(above: Child[], title: string, error: unknown, retry_s: number | null, retry: () => void): HTMLElement[] {
  const hints = error instanceof ApiError ? error.hints : [];
  return [
    element("header", {}, ...above, masthead(title)),
    failure(messageOf(error)),
    element("ul", { class: "words" }, ...hints.map((hint) => element("li", {}, ...withCode(hint)))),
    element("p", {}, button("Try again", retry), retry_s === null ? null : ` Trying again in ${retry_s} s.`),
  ];
}

export function notFound(): HTMLElement[] {
  return [
    element("header", {}, backLink(), masthead("Not found")),
    element("p", {}, "No run, comparison or experiment has this address."),
  ];
}

/** What stands between backticks is something to type. */
function withCode(text: string): (Node | string)[] {
  return text.split("`").map((part, at) => (at % 2 === 1 ? element("code", {}, part) : part));
}
