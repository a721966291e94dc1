/** Builds HTML. Text only ever becomes text nodes, because names in runs may hold markup. */

export type Child = Node | string | null;

export interface Attributes {
  [name: string]: string | number | boolean | null;
}

/** An element; attributes that are null or false are left out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function button(label: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = element("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
}

/** A row of buttons of which one is pressed. */
export function choice<Value extends string>(
  title: string,
  options: readonly (readonly [Value, string])[],
  chosen: Value,
  choose: (value: Value) => void,
): HTMLElement {
  const buttons = options.map(([value, label]) =>
    button(label, () => press(value), { "aria-pressed": String(value === chosen), "data-value": value }),
  );
  const press = (value: Value): void => {
    for (const each of buttons) {
      each.setAttribute("aria-pressed", String(each.dataset["value"] === value));
    }
    choose(value);
  };
  return element("span", { class: "choice", role: "group", "aria-label": title }, ...buttons);
}

/** A box in the colour that stands for something in the charts. */
export function swatch(colour: string): HTMLElement {
  const made = element("span", { class: "swatch" });
  // The content security policy allows no style attribute; a property of the style object is not one.
  made.style.background = colour;
  return made;
}

/** A section with its heading and a first paragraph, linked from the contents by its id. */
export function section(id: string, title: string, lead: string | null, ...children: Child[]): HTMLElement {
  const heading = element("h2", { id: `${id}-heading` }, title);
  const paragraph = lead === null ? null : element("p", { class: "lead" }, lead);
  return element("section", { id, "aria-labelledby": `${id}-heading` }, heading, paragraph, ...children);
}

/** A table that scrolls in a box of its own where the page is narrow, and says so; the box can be scrolled by keyboard. */
export function scrolling(label: string, table: HTMLTableElement): HTMLElement {
  const box = element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 }, table);
  const hint = element("p", { class: "sideways", hidden: true }, "Scroll sideways for more columns →");
  const update = (): void => void (hint.hidden = box.scrollWidth <= box.clientWidth + 1);
  const observer = new ResizeObserver(update);
  observer.observe(box);
  observer.observe(table);
  return element("div", {}, hint, box);
}
