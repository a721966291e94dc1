import assert from "node:assert/strict";
import { test } from "node:test";

import { field, toCsv } from "./csv.ts";

test("quotes, commas and line ends are quoted", () => {
  assert.equal(field('a"b'), '"a""b"');
  assert.equal(field("a,b"), '"a,b"');
  assert.equal(field("a\nb"), '"a\nb"');
});

test("text that a spreadsheet would compute gets an apostrophe", () => {
  for (const text of ["=1+1", "+1", "-1", "@sum", "\tx"]) {
    assert.equal(field(text), "'" + text);
  }
  assert.equal(field('=HYPERLINK("x","y")'), '"\'=HYPERLINK(""x"",""y"")"');
});

test("numbers stay as they are, unrounded", () => {
  assert.equal(field(-1.25e-7), "-1.25e-7");
  assert.equal(field(0.1 + 0.2), "0.30000000000000004");
  assert.equal(field(null), "");
  assert.equal(field(true), "true");
});

test("a table has a line for the names and one for each row", () => {
  assert.equal(
    toCsv({
      columns: ["a", "b"],
      rows: [
        [1, "x"],
        [null, "y"],
      ],
    }),
    "a,b\r\n1,x\r\n,y\r\n",
  );
});
