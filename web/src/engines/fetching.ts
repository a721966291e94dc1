/** Gets models and runtimes from addresses, and says what is wrong with those that are missing or cut short. */

import { Failure } from "../failure.ts";

type OnBytes = (received: number, expected: number) => void;

/** The file of an address as a Blob, which the browser may keep on disk instead of in the page's memory. */
export async function fetchBlob(url: string, onBytes: OnBytes): Promise<Blob> {
  const response = await fetchOk(url);
  const expected = Number(response.headers.get("content-length") ?? 0);
  const isPlain = response.headers.get("content-encoding") === null;
  let received = 0;
  const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      received += chunk.byteLength;
      onBytes(received, expected);
      controller.enqueue(chunk);
    },
  });
  const blob = await new Response(response.body?.pipeThrough(counted)).blob().catch((error: unknown) => {
    throw new Failure("model", `the transfer of ${url} broke off after ${received} bytes: ${String(error)}`, "start again");
  });
  if (isPlain && expected > 0 && blob.size !== expected) {
    throw new Failure("model", `${url} has ${expected} bytes, and ${blob.size} arrived`, "start again");
  }
  return blob;
}

export async function fetchOk(url: string): Promise<Response> {
  const response = await fetch(url).catch((error: unknown) => {
    throw new Failure("model", `could not reach ${url}: ${String(error)}`, reachHint(url));
  });
  if (!response.ok) {
    throw new Failure("model", `${url} is not there: the server answered ${response.status}`, "check the address of the model");
  }
  return response;
}

/** Another site must permit this one to read its files. */
function reachHint(url: string): string {
  const isElsewhere = new URL(url, location.href).origin !== location.origin;
  return isElsewhere
    ? "check the address; the server of another site must allow this page to read its files (CORS)"
    : "check that the server still runs";
}

/** A runtime's module: the one that is given, or that of an address. */
export async function runtimeModule<Module>(name: string, given: unknown, url: string): Promise<Module> {
  if (given !== undefined) {
    return given as Module;
  }
  try {
    return (await import(url)) as Module;
  } catch (error) {
    throw new Failure(
      "runtime",
      `could not load ${name} from ${url}: ${textOf(error)}`,
      `put the files of its npm package at that address`,
    );
  }
}

export const textOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

/** The version that a package states. */
export async function packageVersion(folder: string): Promise<string> {
  try {
    const { version } = (await (await fetchOk(new URL("package.json", folder).href)).json()) as { version?: string };
    return version ?? "unknown";
  } catch {
    return "unknown";
  }
}
