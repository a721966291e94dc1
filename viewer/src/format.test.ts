import assert from "node:assert/strict";
import { test } from "node:test";

import {
  brief,
  bytes,
  bytesPerSecond,
  count,
  countTimesIn,
  counted,
  duration,
  inUnit,
  moment,
  percent,
  significant,
} from "./format.ts";

const plain = (text: string): string => text.replaceAll("\u202f", " ");

test("bytes have three significant digits and binary units", () => {
  assert.equal(plain(bytes(0)), "0 B");
  assert.equal(plain(bytes(12)), "12 B");
  assert.equal(plain(bytes(1536)), "1.50 KiB");
  assert.equal(plain(bytes(96_576_768)), "92.1 MiB");
  assert.equal(plain(bytes(-86_088_089)), "−82.1 MiB");
  assert.equal(plain(bytesPerSecond(6.24e9)), "5.81 GiB/s");
  assert.equal(bytes(null), "–");
});

test("a size just below a unit is not rounded to 1,024 of the smaller one", () => {
  assert.equal(plain(bytes(1024 * 1024 - 1)), "1.00 MiB");
});

test("times of a recording without a clock are counts", () => {
  countTimesIn("instructions");
  try {
    assert.equal(plain(duration(2e-3)), "2,000,000 instructions");
    assert.equal(plain(duration(0)), "0 instructions");
    assert.equal(plain(moment(1.5e-6, 3e-6)), "1,500 instructions");
    assert.equal(plain(bytesPerSecond(2048e3)), "2.00 KiB per million instructions");
  } finally {
    countTimesIn(null);
  }
  assert.equal(plain(duration(2e-3)), "2.00 ms");
});

test("durations choose their unit", () => {
  assert.equal(plain(duration(0)), "0 s");
  assert.equal(plain(duration(292e-6)), "292 µs");
  assert.equal(plain(duration(0.99999e-3)), "1.00 ms");
  assert.equal(plain(duration(4.1234)), "4.12 s");
  assert.equal(plain(duration(90)), "90.0 s");
  assert.equal(plain(duration(600)), "10.0 min");
  assert.equal(plain(duration(3e-10)), "0.300 ns");
});

test("moments are as precise as the window needs", () => {
  assert.equal(plain(moment(30.21234, 30)), "30.21 s");
  assert.equal(plain(moment(30.2123456, 0.002)), "30.212346 s");
  assert.equal(plain(moment(0, 4)), "0.000 s");
  assert.equal(plain(moment(176.46, 176.46)), "2:56.5 min");
  assert.equal(plain(moment(0, 176.46)), "0:00.0 min");
});

test("a share that is not quite nothing or everything is not rounded to it", () => {
  assert.equal(plain(percent(0)), "0 %");
  assert.equal(plain(percent(1)), "100 %");
  assert.equal(plain(percent(0.00001)), "< 0.1 %");
  assert.equal(plain(percent(0.99999)), "> 99.9 %");
  assert.equal(plain(percent(0.1234)), "12.3 %");
});

test("numbers keep three significant digits, whole ones all", () => {
  assert.equal(significant(1234.6), "1,235");
  assert.equal(significant(0.01234), "0.0123");
  assert.equal(significant(1e-7), "1.00e-7");
  assert.equal(count(522_311), "522,311");
  assert.equal(counted(1, "block"), "1 block");
  assert.equal(counted(2, "block"), "2 blocks");
});

test("units that dwell names are scaled", () => {
  assert.equal(plain(inUnit(2048, "bytes")), "2.00 KiB");
  assert.equal(plain(inUnit(1500, "ns")), "1.50 µs");
  assert.equal(plain(inUnit(64.6, "tokens/s")), "64.6 tokens/s");
  assert.equal(plain(inUnit(57, "")), "57");
});

test("round numbers lose zeros after the point, others keep their digits", () => {
  assert.deepEqual(["10.0 s", "1.50 KiB", "100 s", "0.050", "1,000 B"].map(brief), [
    "10 s",
    "1.5 KiB",
    "100 s",
    "0.05",
    "1,000 B",
  ]);
});
