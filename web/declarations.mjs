// The declarations of dwell-web.js in one file: what the compiler says of its module, and what that needs, and nothing else.

import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { format } from "prettier";

const root = fileURLToPath(new URL(".", import.meta.url));
const compiler = join(root, "node_modules/typescript/bin/tsc");
const NAME = /^(?:export )?(?:declare )?(?:abstract )?(?:interface|type|class|const|function) (\w+)/m;
const HEAD =
  "/** What a model costs in a page: memory and tokens, sampled while it loads and writes. Import this module before any runtime. */\n\n";

/** Writes the declarations of `src/index.ts`. */
export async function writeDeclarations(path) {
  const place = await mkdtemp(join(tmpdir(), "dwell-declarations-"));
  try {
    execFileSync(process.execPath, [compiler, "-p", join(root, "tsconfig.types.json"), "--outDir", place]);
    const text = HEAD + rolledUp(await textsBelow(place));
    await writeFile(path, await format(text, { parser: "typescript", printWidth: 130 }));
  } finally {
    await rm(place, { recursive: true, force: true });
  }
  // Every name is declared; on its own, as other people's compilers read it.
  const alone = ["--ignoreConfig", "--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--types", "", path];
  execFileSync(process.execPath, [compiler, ...alone], { stdio: "inherit" });
}

async function textsBelow(folder) {
  const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".d.ts")).sort();
  return Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), "utf8")]));
}

function rolledUp(texts) {
  const [, index] = texts.find(([name]) => name.endsWith("src/index.d.ts"));
  const exported = [...index.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names]) => names.match(/\w+/g));
  const declared = new Map(texts.flatMap(([, text]) => statementsOf(text)));
  const needed = new Set();
  const need = (name) => {
    const statement = declared.get(name);
    if (statement !== undefined && !needed.has(name)) {
      needed.add(name);
      codeOf(statement).match(/\w+/g).forEach(need);
    }
  };
  exported.forEach(need);
  const statements = [...declared].filter(([name]) => needed.has(name)).map(([, statement]) => statement);
  return `${statements.join("\n\n")}\n\nexport { ${exported.join(", ")} };\n`;
}

/** Declarations by name, each with the comment before it, and none of them exported. */
function statementsOf(text) {
  const withoutHead = text.replace(/^\/\*\*.*?\*\/\n/s, "");
  const statements = withoutHead.split(/^(?=\/\*\*|export |declare |interface |type |import )/m);
  const withComments = statements.reduce((all, each) => {
    const isAfterComment = all.at(-1)?.trimEnd().endsWith("*/") && all.at(-1).startsWith("/**");
    return isAfterComment ? [...all.slice(0, -1), all.at(-1) + each] : [...all, each];
  }, []);
  return withComments.flatMap((statement) => {
    const code = codeOf(statement);
    const [, name] = NAME.exec(code) ?? [];
    return name === undefined ? [] : [[name, statement.trim().replace(/^export (declare )?(?=\w)/m, declares(code))]];
  });
}

/** Without comments and texts, in which names are words. */
const codeOf = (text) => text.replace(/\/\*\*.*?\*\/|"[^"]*"/gs, "");
/** Types need no word for that they are only declared. */
const declares = (code) => (/^\s*export (?:interface|type)/.test(code) ? "" : "declare ");
