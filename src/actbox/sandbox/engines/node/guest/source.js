// A program's source made ready for V8's own way of evaluating what is typed at a console, which lets `await` stand at
// the top level and gives back a value. `import` and `export` cannot stand there: they are rewritten, in their lines.
"use strict";

const KEYWORDS_BEFORE_VALUES = new Set(
  ("await case delete do else export extends import in instanceof new of return throw typeof void yield").split(" "),
);
const CONDITIONS = new Set(["if", "while", "for", "with"]);
const WORD = /[\p{ID_Start}$_\\][\p{ID_Continue}$\u200c\u200d\\{}]*/uy;
const PLAIN_WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /\d[\w.]*/y;
const SPACE = /[\s\ufeff]+/y;
const LINE_COMMENT = /(?:\/\/|#!)[^\n\r\u2028\u2029]*/y;
const BLOCK_COMMENT = /\/\*[^]*?\*\//y;
const STRING = /"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[\w$]*/y;
const TEMPLATE_PART = /(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y;

// Return the tokens of a program: {kind, text, start, end, depth}. What is no JavaScript has tokens of some kind too.
function tokens(code) {
  const found = [];
  const brackets = []; // those that are open; "`" for one of a template, "if" for the condition of a statement
  let at = 0;
  let last = null;

  function match(pattern) {
    pattern.lastIndex = at;
    return pattern.exec(code)?.[0];
  }

  function add(kind, text) {
    last = { kind, text, start: at, end: at + text.length, depth: brackets.length };
    found.push(last);
    at += text.length;
  }

  function beginsValue() {
    if (last === null) return true;
    if (last.kind === "word") return KEYWORDS_BEFORE_VALUES.has(last.text);
    return last.kind === "punctuation" && (last.ends === "if" || (last.text !== ")" && last.text !== "]"));
  }

  function template() {
    const part = match(TEMPLATE_PART) ?? code.slice(at);
    add("string", part);
    if (part.endsWith("${")) brackets.push("`");
  }

  while (at < code.length) {
    let text;
    if ((text = match(SPACE) ?? match(LINE_COMMENT) ?? match(BLOCK_COMMENT))) at += text.length;
    else if ((text = match(PLAIN_WORD) ?? match(WORD))) add("word", text);
    else if ((text = match(NUMBER))) add("number", text);
    else if ((text = match(STRING))) add("string", text);
    else if (code[at] === "`") {
      at += 1;
      template();
    } else if (code[at] === "/" && beginsValue() && (text = match(REGEX))) add("regex", text);
    else if ("({[".includes(code[at])) {
      const isCondition = code[at] === "(" && CONDITIONS.has(last?.text);
      add("punctuation", code[at]);
      brackets.push(isCondition ? "if" : last.text);
    } else if (")}]".includes(code[at])) {
      const ends = brackets.pop();
      if (ends === "`") {
        at += 1;
        template();
      } else {
        add("punctuation", code[at]);
        last.ends = ends;
      }
    } else add("punctuation", code[at]);
  }
  return found;
}

// Return the program without `import` and `export`: declarations become constants that `importer` fills, `import(…)` a
// call of it, `import.meta` a property of it. Every line stays the line that it was.
function withoutModuleSyntax(code, importer) {
  if (!/\b(?:import|export)\b/.test(code)) return code;
  const all = tokens(code);
  const changes = [];
  for (let at = 0; at < all.length; at++) {
    const { kind, text, start, end, depth } = all[at];
    if (kind !== "word" || (text !== "import" && text !== "export")) continue;
    const before = all[at - 1]?.text;
    const next = all[at + 1];
    if (next === undefined || before === "." || before === "#" || next.text === ":") continue;
    if (text === "import" && next.text === "(") changes.push({ start, end, text: importer });
    else if (text === "import" && next.text === ".") changes.push({ start, end, text: importer });
    else if (depth === 0) {
      const change = text === "import" ? importOf(all, at, importer) : exportOf(all, at, importer);
      if (change === null) continue;
      changes.push({ ...change, lines: code.slice(change.start, change.end).split("\n").length - 1 });
      at = change.last;
    }
  }
  let rewritten = "";
  let done = 0;
  for (const { start, end, text, lines = 0 } of changes) {
    rewritten += code.slice(done, start) + text + "\n".repeat(lines);
    done = end;
  }
  return rewritten + code.slice(done);
}

// `import a, {b as c} from "x" with {…}` and its kin, from the token at `at`; null for what is none.
function importOf(all, at, importer) {
  const start = all[at].start;
  let index = at + 1;
  const names = [];
  let whole = null;
  const text = () => all[index]?.text;
  if (all[index].kind === "word") {
    names.push(["default", text()]);
    index += 1;
    if (text() === ",") index += 1;
  }
  if (text() === "*" && all[index + 1]?.text === "as") {
    whole = all[index + 2]?.text;
    index += 3;
  } else if (text() === "{") {
    for (index += 1; text() !== "}"; ) {
      if (index >= all.length) return null;
      const name = text();
      index += 1;
      if (text() === "as") {
        names.push([name, all[index + 1]?.text]);
        index += 2;
      } else names.push([name, name]);
      if (text() === ",") index += 1;
    }
    index += 1;
  }
  const bare = index === at + 1;
  if (!bare) {
    if (text() !== "from") return null;
    index += 1;
  }
  if (all[index]?.kind !== "string") return null;
  const specifier = text();
  const { options, last } = optionsOf(all, index);
  const keys = JSON.stringify(names.map(([name]) => unquoted(name)));
  const loaded = `await ${importer}(${specifier}, ${options}, ${keys})`;
  const end = all[last].end;
  if (bare) return { start, end, last, text: `${loaded};` };
  const bound = names.map(([name, local]) => `${name}: ${local}`).join(", ");
  const parts = [];
  if (whole !== null) parts.push(`${whole} = ${loaded}`);
  if (names.length) parts.push(`{${bound}} = ${whole === null ? loaded : whole}`);
  const text_ = parts.length ? `const ${parts.join(", ")};` : `${loaded};`;
  return { start, end, last, text: text_ };
}

// What stands after `from "x"`: `with {…}`. Return it, and the last token of the statement.
function optionsOf(all, index) {
  let last = index;
  let options = "undefined";
  if (all[last + 1]?.text === "with" && all[last + 2]?.text === "{") {
    let end = last + 3;
    while (end < all.length && all[end].text !== "}") end += 1;
    options = `{with: {${all.slice(last + 3, end).map((token) => token.text).join(" ")}}}`;
    last = Math.min(end, all.length - 1);
  }
  if (all[last + 1]?.text === ";") last += 1;
  return { options, last };
}

// `export` before a declaration is left out, and a list of names with it; nobody imports a program.
function exportOf(all, at, importer) {
  const start = all[at].start;
  const next = all[at + 1];
  if (next.text === "default") {
    const declared = ["function", "class", "async"].includes(all[at + 2]?.text) && all[at + 3]?.kind === "word";
    return { start, end: next.end, last: at + 1, text: declared ? "" : "0," };
  }
  if (next.text !== "{" && next.text !== "*") return { start, end: all[at].end, last: at, text: "" };
  let index = at + 1;
  while (index < all.length && !(all[index].text === "}" || (next.text === "*" && all[index].text === "from"))) index++;
  if (index >= all.length) return null;
  const from = all[index].text === "from" ? index : index + 1;
  if (all[from]?.text !== "from" || all[from + 1]?.kind !== "string") {
    return { start, end: all[index].end, last: index, text: ";" };
  }
  const { options, last } = optionsOf(all, from + 1);
  return { start, end: all[last].end, last, text: `await ${importer}(${all[from + 1].text}, ${options});` };
}

function unquoted(name) {
  return /^["']/.test(name) ? name.slice(1, -1) : name;
}

module.exports = { tokens, withoutModuleSyntax };
