/** Whether this browser has WebGPU, asked before a runtime fails for want of it. */

import { Failure } from "../failure.ts";

const CHROMIUM_HINT =
  "use a current Chrome, Edge or Safari with a graphics card; in Chromium without one, start it with --enable-unsafe-webgpu";

export async function requireWebGpu(runtime: string): Promise<GPUAdapter> {
  if (!navigator.gpu) {
    const hint = isSecureContext ? CHROMIUM_HINT : "open the page by https or from localhost: WebGPU needs a secure context";
    throw new Failure("webgpu", `${runtime} needs WebGPU here, and this browser has none`, hint);
  }
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  if (adapter === null) {
    throw new Failure("webgpu", `${runtime} needs WebGPU here, and this browser offers no graphics adapter`, CHROMIUM_HINT);
  }
  return adapter;
}
