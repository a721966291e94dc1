/**
 * SVG as plain data, so that what is drawn can be tested without a browser, put into the document, or written to a file.
 *
 * Colours are CSS variables in presentation attributes: a change of theme needs no drawing, and the content security policy,
 * which forbids style attributes, is kept.
 */

export interface Mark {
  tag: string;
  attributes: Record<string, string | number>;
  children: (Mark | string)[];
}

const NAMESPACE = "http://www.w3.org/2000/svg";

/** Characters that XML 1.0 cannot hold in any form; names in runs may have them. */
const NOT_XML =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export function mark(tag: string, attributes: Mark["attributes"] = {}, ...children: Mark["children"]): Mark {
  return { tag, attributes, children };
}

export function rect(x: number, y: number, width: number, height: number, attributes: Mark["attributes"]): Mark {
  return mark("rect", {
    x: tidy(x),
    y: tidy(y),
    width: tidy(Math.max(0, width)),
    height: tidy(Math.max(0, height)),
    ...attributes,
  });
}

export function line(x1: number, y1: number, x2: number, y2: number, attributes: Mark["attributes"]): Mark {
  return mark("line", { x1: tidy(x1), y1: tidy(y1), x2: tidy(x2), y2: tidy(y2), ...attributes });
}

export function text(x: number, y: number, content: string, attributes: Mark["attributes"] = {}): Mark {
  return mark("text", { x: tidy(x), y: tidy(y), fill: "var(--muted)", ...attributes }, content);
}

/** A mark that says more when the pointer rests on it. */
export function titled(drawn: Mark, title: string): Mark {
  return { ...drawn, children: [...drawn.children, mark("title", {}, title)] };
}

/** The whole picture. */
export function picture(width: number, height: number, ...children: Mark[]): Mark {
  const font = { "font-family": "system-ui, sans-serif", "font-size": 12 };
  return mark("svg", { viewBox: `0 0 ${width} ${height}`, width, height, ...font }, ...children);
}

export function toDom(drawn: Mark): SVGElement {
  const made = document.createElementNS(NAMESPACE, drawn.tag) as SVGElement;
  for (const [name, value] of Object.entries(drawn.attributes)) {
    made.setAttribute(name, String(value));
  }
  made.append(...drawn.children.map((child) => (typeof child === "string" ? child : toDom(child))));
  return made;
}

/** A file of its own. Every `var(--name)` becomes the colour of that name. */
export function toFile(drawn: Mark, colour: (name: string) => string): string {
  const root = { ...drawn, attributes: { xmlns: NAMESPACE, ...drawn.attributes } };
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + toText(root, colour) + "\n";
}

function toText(drawn: Mark, colour: (name: string) => string): string {
  const value = (attribute: string | number): string =>
    escaped(String(attribute).replace(/var\((--[\w-]+)\)/g, (_, name: string) => colour(name)));
  const attributes = Object.entries(drawn.attributes).map(([name, given]) => ` ${name}="${value(given)}"`);
  const children = drawn.children.map((child) => (typeof child === "string" ? escaped(child) : toText(child, colour)));
  return `<${drawn.tag}${attributes.join("")}>${children.join("")}</${drawn.tag}>`;
}

function escaped(content: string): string {
  return content.replace(NOT_XML, "\ufffd").replace(/[&<>"']/g, (character) => ESCAPES[character]);
}

/** A hundredth of a pixel is finer than a screen; scenes keep numbers as they are. */
function tidy(value: number): number {
  return Math.round(value * 100) / 100;
}
