/** A table of entries: columns that can be sorted by, and rows that are made as far as the reader scrolls. */

import { button, element, scrolling, type Child } from "../dom.ts";
import { count } from "../format.ts";
import { keepingPlace } from "./keep_place.ts";
import { ordered, type SortValue } from "./list_entries.ts";

/** Rows that are made at a time: more than a screen holds, and quick. */
const CHUNK = 200;
/** Stands for a value that is not known. */
export const NOTHING = "–";

export interface Column<Entry> {
  name: string;
  title: string;
  meaning: string;
  /** What the column is sorted by; null if it cannot be sorted. */
  value: ((entry: Entry) => SortValue) | null;
  cell: (entry: Entry) => Child;
  /** Whether the first click sorts the greatest first. */
  isGreatestFirst: boolean;
}

export interface Sorting {
  /** Name of a column; empty for the order in which entries are given. */
  sort: string;
  isDescending: boolean;
}

export class EntryTable<Entry extends { path: string }> {
  readonly element: HTMLElement;
  readonly #body = element("tbody");
  readonly #more = button("", () => this.#showMore(), { class: "more" });
  readonly #headings = new Map<string, HTMLElement>();
  #entries: readonly Entry[] = [];
  #sorted: readonly Entry[] = [];
  #made = CHUNK;

  constructor(
    readonly title: string,
    readonly columns: readonly Column<Entry>[],
    public sorting: Sorting,
    readonly sortingChanged: (sorting: Sorting) => void,
  ) {
    const head = element("tr", {}, ...columns.map((column) => this.#heading(column)));
    const table = element("table", { class: "results" }, element("thead", {}, head), this.#body);
    this.element = element("div", {}, scrolling(title, table), this.#more);
    new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && this.#showMore()).observe(this.#more);
  }

  /** Shows these entries, as far down as the table went. */
  show(entries: readonly Entry[]): void {
    this.#entries = entries;
    this.#sort();
  }

  #heading(column: Column<Entry>): HTMLElement {
    const label =
      column.value === null
        ? element("span", { class: "hidden" }, column.title)
        : button(column.title, () => this.#sortBy(column), { title: column.meaning });
    const heading = element("th", { scope: "col" }, label);
    this.#headings.set(column.name, heading);
    return heading;
  }

  #sortBy({ name, isGreatestFirst }: Column<Entry>): void {
    const { sort, isDescending } = this.sorting;
    this.sorting = { sort: name, isDescending: sort === name ? !isDescending : isGreatestFirst };
    this.#made = CHUNK;
    this.#sort();
    this.sortingChanged(this.sorting);
  }

  #sort(): void {
    const { sort, isDescending } = this.sorting;
    const value = this.columns.find(({ name }) => name === sort)?.value;
    this.#sorted = value ? ordered(this.#entries, value, isDescending) : this.#entries;
    this.#headings.forEach((heading, name) => {
      heading.setAttribute("aria-sort", name !== sort ? "none" : isDescending ? "descending" : "ascending");
    });
    keepingPlace(this.element, () => this.#body.replaceChildren(...this.#rows(0, this.#made)));
    this.#countMore();
  }

  #showMore(): void {
    this.#body.append(...this.#rows(this.#made, this.#made + CHUNK));
    this.#made += CHUNK;
    this.#countMore();
  }

  #countMore(): void {
    const left = Math.max(0, this.#sorted.length - this.#made);
    this.#more.hidden = left === 0;
    this.#more.textContent = `Show more (${count(left)} left)`;
  }

  #rows(from: number, to: number): HTMLElement[] {
    return this.#sorted
      .slice(from, to)
      .map((entry) => element("tr", { "data-key": entry.path }, ...this.columns.map((column) => cellOf(column, entry))));
  }
}

/** A cell without a value is left out where a row is a card. */
function cellOf<Entry>({ name, title, cell }: Column<Entry>, entry: Entry): HTMLElement {
  const made = element("td", { class: `cell-${name}`, "data-label": title }, cell(entry));
  made.classList.toggle("empty", made.textContent === NOTHING);
  return made;
}
