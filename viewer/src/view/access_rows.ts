/** Single accesses: rows of `trace`, read from an Arrow stream. */

import { tableFromIPC } from "@uwdata/flechette";

import type { Cell, Table } from "../csv.ts";

export interface Access {
  timestamp_ns: number;
  op_type: string;
  region_type: string;
  layer: number | null;
  tensor: string;
  /** Hexadecimal: addresses of all processes but the first are above what a number can hold. */
  address: string;
  size_bytes: number;
  step: number | null;
  token_index: number | null;
  symbol: string;
}

export function decodeAccesses(bytes: Uint8Array): Access[] {
  const table = tableFromIPC(bytes, { useBigInt: true });
  const column = (name: string): ((row: number) => unknown) => {
    // Tables of earlier versions may lack a column.
    const values = table.names.includes(name) ? table.getChild(name) : null;
    return (row) => values?.at(row) ?? null;
  };
  const number = (name: string): ((row: number) => number | null) => {
    const value = column(name);
    return (row) => (value(row) === null ? null : Number(value(row)));
  };
  const text = (name: string): ((row: number) => string) => {
    const value = column(name);
    return (row) => String(value(row) ?? "");
  };
  const [time, size, layer, step, token] = ["timestamp_ns", "size_bytes", "layer", "step", "token_index"].map(number);
  const [op, region, tensor, symbol] = ["op_type", "region_type", "tensor", "symbol"].map(text);
  const address = column("address");
  return Array.from({ length: table.numRows }, (_, row) => ({
    timestamp_ns: time(row) ?? 0,
    op_type: op(row),
    region_type: region(row),
    layer: layer(row),
    tensor: tensor(row),
    address: `0x${BigInt((address(row) as bigint | number | null) ?? 0).toString(16)}`,
    size_bytes: size(row) ?? 0,
    step: step(row),
    token_index: token(row),
    symbol: symbol(row),
  }));
}

/** For CSV. */
export function accessTable(accesses: readonly Access[], run_begin_ns: number): Table {
  const columns = [
    "timestamp_ns",
    "op_type",
    "region_type",
    "layer",
    "tensor",
    "address",
    "size_bytes",
    "step",
    "token_index",
    "symbol",
  ] as const satisfies (keyof Access)[];
  const rows = accesses.map((access): Cell[] => [secondsSince(run_begin_ns, access), ...columns.map((column) => access[column])]);
  return { columns: ["time_s", ...columns], rows };
}

export function secondsSince(run_begin_ns: number, { timestamp_ns }: Access): number {
  return (timestamp_ns - run_begin_ns) / 1e9;
}
