/** Asks the server. The only file of the viewer that uses the network. */

import { checkedPage } from "../data.ts";
import type { Page } from "../page.ts";
import { API_FORMAT, type Failure, type ResultsList, type WindowAnswer } from "./api.ts";

/** Half-open: `begin_ns <= time < end_ns`. */
export interface NsSpan {
  begin_ns: number;
  end_ns: number;
}

export interface PageAnswer {
  /** null if it is the same as before. */
  page: Page | null;
  etag: string | null;
  /** When to ask again; null if the page is final. */
  refresh_s: number | null;
}

export interface RowsAnswer {
  /** An Arrow IPC stream. */
  bytes: Uint8Array;
  hasMore: boolean;
}

/** Of answers that never came, or that another version of dwell gave. */
const GONE = 0;
const NOT_UNDERSTOOD = -1;
const NOT_MODIFIED = 304;
const NO_TOKEN = 401;
const FORBIDDEN = 403;
const TOO_BUSY = 429;
const SERVER_FAILED = 500;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hints: readonly string[] = [],
  ) {
    super(message);
  }

  /** Whether asking again may help without anybody doing anything. */
  get isPassing(): boolean {
    return this.status === GONE || this.status === TOO_BUSY || this.status >= SERVER_FAILED;
  }

  get isRefusal(): boolean {
    return this.status === NO_TOKEN || this.status === FORBIDDEN;
  }
}

export async function getResults(signal: AbortSignal): Promise<ResultsList> {
  return checked((await (await ask("results", {}, signal)).json()) as ResultsList);
}

/** `names` says what the page is of: a run, several, or an experiment. */
export async function getPage(names: [string, string][], etag: string | null, signal: AbortSignal): Promise<PageAnswer> {
  const answer = await ask("page", names, signal, etag === null ? {} : { "If-None-Match": etag });
  const refresh = answer.headers.get("Dwell-Refresh");
  return {
    page: answer.status === NOT_MODIFIED ? null : checkedPage((await answer.json()) as Page),
    etag: answer.headers.get("ETag") ?? etag,
    refresh_s: refresh === null ? null : Number(refresh),
  };
}

export async function getWindow(run: string, span: NsSpan, signal: AbortSignal): Promise<WindowAnswer> {
  return checked((await (await ask("window", { run, ...span }, signal)).json()) as WindowAnswer);
}

export async function getRows(run: string, span: NsSpan, limit: number, signal: AbortSignal): Promise<RowsAnswer> {
  const answer = await ask("rows", { run, table: "trace", ...span, limit }, signal);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), hasMore: answer.headers.get("Dwell-More") === "true" };
}

type Query = [string, string][] | Record<string, string | number>;

async function ask(name: string, query: Query, signal: AbortSignal, headers: Record<string, string> = {}): Promise<Response> {
  const pairs = Array.isArray(query) ? query : Object.entries(query).map(([key, value]) => [key, String(value)]);
  let answer: Response;
  try {
    // The page keeps what it needs; a copy in the browser's cache would only hide what the server says.
    answer = await fetch(`/api/v1/${name}?${new URLSearchParams(pairs)}`, { signal, headers, cache: "no-store" });
  } catch (error) {
    throw signal.aborted ? error : new ApiError(GONE, "The server does not answer.", ["Is `dwell view` still running?"]);
  }
  if (!answer.ok && answer.status !== NOT_MODIFIED) {
    throw await failureOf(answer);
  }
  return answer;
}

async function failureOf(answer: Response): Promise<ApiError> {
  const said = (await answer.json().catch(() => null)) as Failure | null;
  return new ApiError(answer.status, said?.error ?? `The server answered with status ${answer.status}.`, said?.hints ?? []);
}

function checked<Answer extends { format: number }>(answer: Answer): Answer {
  if (answer.format !== API_FORMAT) {
    throw new ApiError(
      NOT_UNDERSTOOD,
      `The server answers in format ${answer.format}, and this page reads format ${API_FORMAT}: load the page again.`,
    );
  }
  return answer;
}
