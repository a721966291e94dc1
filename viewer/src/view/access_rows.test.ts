import assert from "node:assert/strict";
import { test } from "node:test";

import { columnFromArray, dictionary, tableFromColumns, tableToIPC, uint16, uint32, uint64, utf8 } from "@uwdata/flechette";

import { HOSTILE } from "../../test/sample.ts";
import { toCsv } from "../csv.ts";
import { accessTable, decodeAccesses, secondsSince } from "./access_rows.ts";
import { spanOfFirst } from "./accesses.ts";

const BEGIN_NS = 40_376_000_000_000;
/** Of a second process: above what a number can hold. */
const FAR = (1n << 56n) + 0x7f00_dead_beefn;

function stream(rows: number, without: string[] = []): Uint8Array {
  const each = <Value>(value: (row: number) => Value): Value[] => Array.from({ length: rows }, (_, row) => value(row));
  const text = (value: (row: number) => string) => columnFromArray(each(value), dictionary(utf8()));
  const columns = {
    run_id: columnFromArray(
      each(() => "r"),
      utf8(),
    ),
    timestamp_ns: columnFromArray(
      each((row) => BigInt(BEGIN_NS + 1000 * row)),
      uint64(),
    ),
    op_type: text((row) => (row % 2 === 0 ? "load" : "store")),
    region_type: text(() => "weight"),
    layer: columnFromArray(
      each((row) => (row === 0 ? null : row)),
      uint16(),
    ),
    tensor: text((row) => (row === 1 ? HOSTILE : `blk.${row}`)),
    address: columnFromArray(
      each((row) => FAR + BigInt(row)),
      uint64(),
    ),
    size_bytes: columnFromArray(
      each((row) => BigInt(row * 10)),
      uint64(),
    ),
    step: columnFromArray(
      each((row) => row),
      uint32(),
    ),
    token_index: columnFromArray(
      each(() => null),
      uint32(),
    ),
    symbol: text(() => "MUL_MAT"),
  };
  const kept = Object.entries(columns).filter(([name]) => !without.includes(name));
  const bytes = tableToIPC(tableFromColumns(Object.fromEntries(kept)), { format: "stream" });
  assert.ok(bytes);
  return bytes;
}

test("rows are read to the last bit", () => {
  const [first, second] = decodeAccesses(stream(2));
  assert.deepEqual(first, {
    timestamp_ns: BEGIN_NS,
    op_type: "load",
    region_type: "weight",
    layer: null,
    tensor: "blk.0",
    address: "0x1007f00deadbeef",
    size_bytes: 0,
    step: 0,
    token_index: null,
    symbol: "MUL_MAT",
  });
  assert.deepEqual([second.op_type, second.layer, second.tensor, second.size_bytes], ["store", 1, HOSTILE, 10]);
  assert.equal(secondsSince(BEGIN_NS, second), 1e-6);
});

test("a table without rows has none", () => {
  assert.deepEqual(decodeAccesses(stream(0)), []);
});

test("columns that a table of an earlier version lacks are empty", () => {
  const [access] = decodeAccesses(stream(1, ["step", "symbol", "layer"]));
  assert.deepEqual([access.step, access.symbol, access.layer], [null, "", null]);
});

test("the file has every column, and hostile names as they are", () => {
  const csv = toCsv(accessTable(decodeAccesses(stream(2)), BEGIN_NS));
  assert.ok(csv.startsWith("time_s,timestamp_ns,op_type,"));
  assert.ok(csv.includes(`"${HOSTILE.replaceAll('"', '""')}"`));
});

test("the first accesses end before a moment of which some may be missing", () => {
  const accesses = decodeAccesses(stream(4));
  assert.deepEqual(spanOfFirst(accesses, false), { begin_ns: BEGIN_NS, end_ns: BEGIN_NS + 3000 });
  assert.deepEqual(spanOfFirst(accesses, true), { begin_ns: BEGIN_NS, end_ns: BEGIN_NS + 2000 });
  assert.equal(spanOfFirst([], false), null);
});
