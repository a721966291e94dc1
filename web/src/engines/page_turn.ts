/** Lets the page react between two tokens of a runtime that computes on the page's own thread. */

/** Resolves after the events and timers that wait now had their turn. A timer of 0 ms would be made to last 4 ms. */
export function pageTurn(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
