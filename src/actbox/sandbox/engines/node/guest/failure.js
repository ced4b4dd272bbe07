// From what a program threw to an error that a model can act on: kind, message, line, its own frames, a hint.
"use strict";

const { ToolError } = require("./tool_error.js");
const { cut, textOf } = require("./values.js");

const MAX_MESSAGE = 20_000;
const MAX_TRACEBACK = 50_000;
const FRAME = /^ {4}at /;
const PLACE = /^ {4}at (?:.*? \()?(?:async )?(.*?):(\d+):(\d+)\)?$/;

const TAKE_LESS = "work on less at a time: read in chunks, keep fewer columns, use generators";
const NO_WAY = "this sandbox has no network; use the tools or the files that it was given";
const FEW_WAYS = "only hosts that the policy allows can be reached";
const NO_NETWORK = new Set(["ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"]);
const NOT_OURS = "a program may send signals only to processes that it has started";
// Every name leads to this loopback where there is a proxy, on which few ports are listened to; what the policy refuses
// of TLS ends with an alert (RFC 8446, section 6.2), which Node tells as a code, or as words beside EPROTO.
const REFUSED = new Set(["ECONNREFUSED", "ERR_SSL_TLSV1_ALERT_ACCESS_DENIED"]);
const REFUSED_IN_WORDS = /alert access denied/;
const SYSTEM = {
  EFBIG: ["DISK", "file_mib", "write smaller files"],
  ENOSPC: ["DISK", "workspace_mib", "write less, or remove files that are no longer needed"],
  EDQUOT: ["DISK", "workspace_mib", "write less, or remove files that are no longer needed"],
  ENOMEM: ["MEMORY", "memory_mib", TAKE_LESS],
  ERR_WORKER_OUT_OF_MEMORY: ["MEMORY", "memory_mib", TAKE_LESS],
  EMFILE: ["RUNTIME", "open_files", "close files when done with them"],
  EPERM: ["POLICY", "", "the sandbox does not allow this; write below /workspace or /tmp only"],
  EROFS: ["POLICY", "", "the sandbox does not allow this; write below /workspace or /tmp only"],
};

// Return what a result says of what a program threw and did not catch. `program` has its name and its lines.
function describe(thrown, program) {
  try {
    return describeThrown(thrown, program);
  } catch (failure) {
    return { kind: "RUNTIME", message: `(it cannot be shown: looking at it threw ${failure?.name})` };
  }
}

function describeThrown(thrown, program) {
  const isError = thrown instanceof Error || Object.prototype.toString.call(thrown) === "[object Error]";
  const message = isError ? String(thrown.message) : textOf(thrown);
  const type = isError ? String(thrown.name || thrown.constructor?.name || "Error") : typeof thrown;
  const frames = isError ? ownFrames(thrown) : [];
  const place = placeIn(frames, program.name);
  const [kind, limit, hint] = classify(thrown, program);
  return {
    kind,
    type,
    message: cut(message, MAX_MESSAGE),
    line: place?.line ?? null,
    traceback: cut(tracebackOf(thrown, isError, `${type}: ${message}`, frames, place, program), MAX_TRACEBACK),
    hint,
    limit,
  };
}

// Return what a result says of source that is no program; `line` and `column` count from 1.
function describeSyntax(message, line, column, program, hint = "") {
  const at = Math.min(Math.max(line, 1), program.lines.length);
  const excerpt = excerptOf({ line: at, column: at === line ? column : 0 }, program);
  const language = program.language === "typescript" ? "TypeScript" : "JavaScript";
  return {
    kind: "SYNTAX",
    type: "SyntaxError",
    message: cut(message, MAX_MESSAGE),
    line: at,
    traceback: `${excerpt}SyntaxError: ${cut(message, MAX_MESSAGE)}\n`,
    hint: hint || `programs here are ${language}: correct line ${at} and send the whole program again`,
    limit: "",
  };
}

function tracebackOf(thrown, isError, head, frames, place, program) {
  let text = `${excerptOf(place, program)}${isError ? head : `Uncaught ${head}`}\n`;
  text += frames.map((frame) => `${frame}\n`).join("");
  const seen = new Set([thrown]);
  let cause = isError ? thrown.cause : undefined;
  while (cause instanceof Error && !seen.has(cause)) {
    seen.add(cause);
    text += `caused by ${cause.name}: ${cause.message}\n${ownFrames(cause).map((frame) => `${frame}\n`).join("")}`;
    cause = cause.cause;
  }
  return text;
}

// Frames of the guest, of Node and of packages are left out.
function ownFrames(error) {
  const lines = String(error.stack).split("\n").filter((line) => FRAME.test(line));
  return lines.filter((line) => !/\bnode:|\/node_modules\/|\bat new Promise \(<anonymous>\)/.test(line));
}

function placeIn(frames, name) {
  for (const frame of frames) {
    const [, file, line, column] = PLACE.exec(frame) ?? [];
    if (file === name) return { line: Number(line), column: Number(column) };
  }
  return null;
}

function excerptOf(place, program) {
  const text = place === null ? undefined : program.lines[place.line - 1];
  if (text === undefined || text.length > 500) return "";
  const before = text.slice(0, Math.max(place.column - 1, 0)).replace(/[^\t]/g, " ");
  return `${program.name}:${place.line}\n${text}\n${place.column ? `${before}^\n` : ""}\n`;
}

// Return the kind, the limit that was reached (or nothing) and a hint (or nothing).
function classify(thrown, program) {
  if (thrown instanceof ToolError) {
    if (thrown.refused) {
      return ["TOOL", "", "the call was refused approval; do not try it again unless asked to, go on without it"];
    }
    return ["TOOL", "", "change the call, or catch ToolError and go on without it"];
  }
  const code = thrown?.code;
  if (code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND") return missing(thrown);
  const hasProxy = "HTTP_PROXY" in process.env;
  if (metNoNetwork(thrown, hasProxy)) return ["NETWORK", "", hasProxy ? FEW_WAYS : NO_WAY];
  if (code === "EACCES" && thrown.syscall !== "spawn") return SYSTEM.EPERM;
  if (code === "EAGAIN" && /^(?:spawn|fork|clone|uv_thread)/.test(thrown.syscall ?? "")) return tooMany();
  if (code === "ERR_WORKER_INIT_FAILED") return tooMany();
  if (code === "EPERM" && thrown.syscall === "kill") return ["POLICY", "", NOT_OURS];
  if (Object.hasOwn(SYSTEM, code ?? "")) return SYSTEM[code];
  if (thrown instanceof RangeError && /allocation failed/i.test(thrown.message)) return SYSTEM.ENOMEM;
  if (thrown instanceof ReferenceError) return ["RUNTIME", "", nameHint(thrown, program.toolNames)];
  if (thrown instanceof TypeError && program.toolNames.length) return ["RUNTIME", "", awaitHint(thrown, program)];
  return ["RUNTIME", "", ""];
}

function missing(thrown) {
  const [, name] = /(?:package|module) '([^']+)'/.exec(thrown.message) ?? [];
  if (name === undefined || /^[./]/.test(name)) return ["RUNTIME", "", "files are imported by paths such as './lib.js'"];
  return ["MISSING_DEPENDENCY", "", `${name} is not installed here; use what Node has built in, or do without`];
}

function tooMany() {
  return ["PROCESSES", "processes", "start fewer processes and threads at once, and wait for them"];
}

function metNoNetwork(thrown, hasProxy) {
  const seen = new Set();
  for (let at = thrown; at instanceof Error && !seen.has(at); at = at.cause) {
    seen.add(at);
    const errors = at instanceof AggregateError ? [at, ...at.errors] : [at];
    if (errors.some((error) => NO_NETWORK.has(error?.code) || (hasProxy && isRefusal(error)))) return true;
  }
  return false;
}

function isRefusal(error) {
  return REFUSED.has(error?.code) || (error?.code === "EPROTO" && REFUSED_IN_WORDS.test(error.message));
}

function nameHint(thrown, toolNames) {
  const [, name] = /^(\S+) is not defined/.exec(thrown.message) ?? [];
  const bare = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const close = name && toolNames.find((tool) => bare(tool) === bare(name));
  return close ? `there is a tool named ${close}` : "";
}

// Tools are functions whose values have to be awaited, which is often forgotten.
function awaitHint(thrown, program) {
  const place = placeIn(ownFrames(thrown), program.name);
  const text = program.lines.slice(0, place?.line ?? 0).join("\n");
  const forgotten = program.toolNames.find((tool) => new RegExp(`=\\s*${tool}\\s*\\(`).test(text));
  return forgotten ? `\`${forgotten}(…)\` returns its value only when it is awaited: write \`await ${forgotten}(…)\`` : "";
}

// Whether the program itself is among the callers of what made an error.
function isRaisedIn(error, program) {
  return placeIn(ownFrames(error), program.name) !== null;
}

module.exports = { describe, describeSyntax, isRaisedIn };
