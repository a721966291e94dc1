/** Whether a button of the pointer is pressed: a page that is dragged on is not drawn again. */

let isPressed = false;
let released: (() => void)[] = [];

export function watchPointer(): void {
  addEventListener("pointerdown", () => (isPressed = true), { capture: true });
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, release, { capture: true });
  }
}

export function whenReleased(): Promise<void> {
  return isPressed ? new Promise((resolve) => released.push(resolve)) : Promise.resolve();
}

function release(): void {
  isPressed = false;
  const waiting = released;
  released = [];
  // After the listeners of the chart, which end the drag.
  setTimeout(() => waiting.forEach((resolve) => resolve()));
}
