/** Draws a page again without the reader losing their place: scroll, focus, and what was opened or chosen. */

/** What stays the same part of the page when it is drawn again. */
const ANCHORS = "section[id], [data-key]";
const FOCUSABLE = "a, button, input, select, summary, [tabindex]";

type Restore = () => void;

/** Draws with `change`, then puts everything back. */
export function keepingPlace<Result>(root: HTMLElement, change: () => Result): Result {
  const restore = [keepDetails(root), keepChoices(root), keepBoxes(root), keepFocus(root), keepScroll(root)];
  const result = change();
  restore.forEach((each) => each());
  return result;
}

function anchorKey(anchor: HTMLElement): string {
  return anchor.dataset["key"] ?? anchor.id;
}

function findAnchor(root: HTMLElement, key: string): HTMLElement | undefined {
  return [...root.querySelectorAll<HTMLElement>(ANCHORS)].find((anchor) => anchorKey(anchor) === key);
}

function keepDetails(root: HTMLElement): Restore {
  const nameOf = (details: HTMLDetailsElement): string =>
    JSON.stringify([details.closest("section")?.id, details.querySelector("summary")?.textContent]);
  const all = (): HTMLDetailsElement[] => [...root.querySelectorAll("details")];
  const open = new Set(all().flatMap((details) => (details.open ? [nameOf(details)] : [])));
  return () => all().forEach((details) => (details.open = open.has(nameOf(details))));
}

/** Buttons of which one is pressed, and lists of which one is chosen, in sections: the header keeps its own. */
function keepChoices(root: HTMLElement): Restore {
  const pressed = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>('section .choice [aria-pressed="true"]')];
  const nameOf = (button: HTMLElement): string =>
    JSON.stringify([button.closest("figure")?.id, button.parentElement?.getAttribute("aria-label")]);
  const values = new Map(pressed().map((button) => [nameOf(button), button.dataset["value"]]));
  const selects = (): HTMLSelectElement[] => [...root.querySelectorAll<HTMLSelectElement>("section select")];
  const chosen = selects().map(({ value }) => value);
  return () => {
    for (const button of pressed()) {
      const value = values.get(nameOf(button));
      const others = [...(button.parentElement?.querySelectorAll<HTMLElement>("button") ?? [])];
      if (value !== undefined && value !== button.dataset["value"]) {
        others.find((other) => other.dataset["value"] === value)?.click();
      }
    }
    selects().forEach((select, at) => choose(select, chosen[at]));
  };
}

function choose(select: HTMLSelectElement, value: string | undefined): void {
  const isThere = [...select.options].some((option) => option.value === value);
  if (value !== undefined && isThere && select.value !== value) {
    select.value = value;
    select.dispatchEvent(new Event("change"));
  }
}

function keepBoxes(root: HTMLElement): Restore {
  const boxes = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>(".scroll")];
  const places = boxes().map(({ scrollLeft, scrollTop }) => ({ left: scrollLeft, top: scrollTop }));
  return () => boxes().forEach((box, at) => places[at] && box.scrollTo({ ...places[at], behavior: "instant" }));
}

function keepFocus(root: HTMLElement): Restore {
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement) || !root.contains(focused)) {
    return () => undefined;
  }
  const anchor = focused.closest<HTMLElement>(ANCHORS);
  const key = anchor === null ? null : anchorKey(anchor);
  const inside = (place: HTMLElement): HTMLElement[] => [...place.querySelectorAll<HTMLElement>(FOCUSABLE)];
  const number = inside(anchor ?? root).indexOf(focused);
  return () => {
    if (!root.contains(document.activeElement)) {
      const place = key === null ? root : findAnchor(root, key);
      (place === undefined ? undefined : inside(place)[number])?.focus({ preventScroll: true });
    }
  };
}

/** The first part that is on the screen stays where it is, whatever grows above it. */
function keepScroll(root: HTMLElement): Restore {
  const anchors = [...root.querySelectorAll<HTMLElement>(ANCHORS)];
  const first = anchors.find((anchor) => anchor.getBoundingClientRect().bottom > 0);
  const y = scrollY;
  // At the top of the page its beginning is what the reader sees, not the first part.
  if (first === undefined || (first === anchors[0] && first.getBoundingClientRect().top > 0)) {
    return () => scrollTo({ top: y, behavior: "instant" });
  }
  const [key, top] = [anchorKey(first), first.getBoundingClientRect().top];
  return () => {
    const now = findAnchor(root, key);
    const by = now === undefined ? y - scrollY : now.getBoundingClientRect().top - top;
    scrollBy({ top: by, behavior: "instant" });
  };
}
