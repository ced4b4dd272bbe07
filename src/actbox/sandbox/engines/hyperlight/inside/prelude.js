// What runs inside a machine of the JavaScript backend: the way to the host, tools, a console, timers, files, and the
// running of programs. It is evaluated `OURS` lines down, so that its own frames can be told from a program's.
(() => {
"use strict";
const OURS = 200000;
const PIECE = 8 * 1024; // the library's buffer for one call has 16 KiB
const MAX_TEXT = 100000;
const dispatch = globalThis.call_tool;
// The library's own names cannot be taken from the global object, so that programs run where others hide them.
const HIDDEN = ["console", "call_tool", "require", "print", "read_file", "read_file_bytes", "write_file", "fetch"];
const state = { timers: new Map(), lastTimer: 0, lastCall: 0, maxBytes: 2 ** 20 };

class ToolError extends Error {
  constructor(message, tool = "", refused = false) {
    super(message);
    this.tool = tool;
    this.refused = refused;
  }
}
ToolError.prototype.name = "ToolError";
class Exit { constructor(code) { this.code = code; } }
class TooLong extends Error {}

// Frames: two lengths of 32 bits, JSON, and bytes that the JSON names as {"\0": index}. See guest/wire.py.

const utf8 = (text) => unescape(encodeURIComponent(text.toWellFormed()));
const fromUtf8 = (binary) => decodeURIComponent(escape(binary));
const length32 = (n) => String.fromCharCode(n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255);
const read32 = (s, at) => ((s.charCodeAt(at) << 24) | (s.charCodeAt(at + 1) << 16) | (s.charCodeAt(at + 2) << 8)
  | s.charCodeAt(at + 3)) >>> 0;

function binaryOf(bytes) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += 4096) pieces.push(String.fromCharCode(...bytes.subarray(at, at + 4096)));
  return pieces.join("");
}

function bytesOf(binary) {
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

function checkPlain(value, path) {
  if (value === null || ["string", "boolean"].includes(typeof value) || value instanceof Uint8Array) return;
  if (typeof value === "number" && Number.isFinite(value)) return;
  if (typeof value !== "object") throw new TypeError(`${path} is ${typeof value === "number" ? value : `a ${typeof value}`}, which JSON does not have`);
  for (const [key, item] of Object.entries(value)) if (item !== undefined) checkPlain(item, `${path}.${key}`);
}

function encode(message) {
  checkPlain(message, "the value");
  const blobs = [];
  const lift = (value) => {
    if (value instanceof Uint8Array) return { "\0": blobs.push(binaryOf(value)) - 1 };
    if (Array.isArray(value)) return value.map(lift);
    if (value === null || typeof value !== "object") return value;
    const entries = Object.entries(typeof value.toJSON === "function" ? value.toJSON() : value);
    return Object.fromEntries(entries.map(([key, item]) => [key.startsWith("\0") ? `\0${key}` : key, lift(item)]));
  };
  const lifted = lift(message);
  if (blobs.length) lifted.blobs = blobs.map((blob) => blob.length);
  const text = utf8(JSON.stringify(lifted));
  const blob = blobs.join("");
  if (text.length + blob.length > state.maxBytes) {
    throw new TooLong(`a message of ${text.length + blob.length} bytes; the limit is ${state.maxBytes}`);
  }
  return length32(text.length) + length32(blob.length) + text + blob;
}

function decode(frame) {
  const end = 8 + read32(frame, 0);
  const message = JSON.parse(fromUtf8(frame.slice(8, end)));
  const sizes = message.blobs;
  if (sizes === undefined) return message;
  delete message.blobs;
  let at = end;
  const blobs = sizes.map((size) => bytesOf(frame.slice(at, (at += size))));
  const place = (value) => {
    if (value === null || typeof value !== "object") return value;
    const keys = Object.keys(value);
    if (keys.length === 1 && keys[0] === "\0") return blobs[value["\0"]];
    for (const key of keys) {
      const placed = place(value[key]);
      if (key.startsWith("\0")) delete value[key];
      value[key.startsWith("\0") ? key.slice(1) : key] = placed;
    }
    return value;
  };
  return place(message);
}

function answerOf(first) {
  let answer = atob(first.piece);
  while (answer.length < first.size) answer += atob(dispatch("actbox", { p: answer.length }).piece);
  return decode(answer);
}

function ask(message) {
  const frame = encode(message);
  let at = 0;
  for (; frame.length - at > PIECE; at += PIECE) dispatch("actbox", { m: btoa(frame.slice(at, at + PIECE)) });
  return answerOf(dispatch("actbox", { q: btoa(frame.slice(at)) }));
}

function say(stream, text) {
  const data = utf8(text);
  for (let at = 0; at < data.length; at += PIECE) dispatch("actbox", { [stream]: btoa(data.slice(at, at + PIECE)) });
}

// How values look: much as Node shows them

function inspect(value, depth = 0, seen = []) {
  if (typeof value === "string") return depth ? `'${value.replace(/[\\']/g, "\\$&").replace(/\n/g, "\\n")}'` : value;
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `[${/^class\b/.test(String(value)) ? "class" : "Function"}: ${value.name}]`;
  if (value === null || typeof value !== "object") return Object.is(value, -0) ? "-0" : String(value);
  if (seen.includes(value)) return "[Circular]";
  const inner = (item) => inspect(item, depth + 1, [...seen, value]);
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  if (value instanceof RegExp) return String(value);
  if (value instanceof Promise) return "Promise {}";
  const name = value.constructor?.name ?? "[Object: null prototype]";
  if (depth > 4) return Array.isArray(value) ? "[Array]" : `[${name}]`;
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const items = Array.from(value.length > 100 ? value.slice(0, 100) : value, inner);
    if (value.length > 100) items.push(`... ${value.length - 100} more items`);
    return `${Array.isArray(value) ? "" : `${name}(${value.length}) `}${items.length ? `[ ${items.join(", ")} ]` : "[]"}`;
  }
  const pairs = value instanceof Map ? Array.from(value, ([key, item]) => `${inner(key)} => ${inner(item)}`)
    : value instanceof Set ? Array.from(value, inner)
    : Object.entries(value).map(([key, item]) => `${/^[\w$]+$/.test(key) ? key : inner(key)}: ${inner(item)}`);
  const sized = value instanceof Map || value instanceof Set ? `${name}(${value.size}) ` : "";
  return `${sized || (name === "Object" ? "" : `${name} `)}${pairs.length ? `{ ${pairs.join(", ")} }` : "{}"}`;
}

const line = (items) => `${items.map((item) => (typeof item === "string" ? item : inspect(item, 1))).join(" ")}\n`;
const out = (...items) => say("o", line(items));
const err = (...items) => say("e", line(items));
const console = { log: out, info: out, debug: out, dir: (item) => out(item), error: err, warn: err, trace: err };

// Tools

const isPlain = (value) => value !== null && typeof value === "object"
  && [null, Object.prototype].includes(Object.getPrototypeOf(value));

function call(tool, args) {
  let answer;
  try {
    answer = ask({ t: "call", id: ++state.lastCall, tool, args });
  } catch (error) {
    if (!(error instanceof TooLong || error instanceof TypeError)) throw error;
    const what = error instanceof TooLong ? "are too large" : "must be JSON values or bytes";
    throw new ToolError(`the arguments ${what}: ${error.message}`, tool);
  }
  if (answer.error !== undefined) throw new ToolError(answer.error, tool, Boolean(answer.refused));
  return answer.value;
}

function bindTools(specs) {
  const names = { ToolError };
  if (specs.length) {
    names.call_tool = async function call_tool(name, args = {}) {
      if (typeof name !== "string") throw new TypeError(`call_tool() takes a tool's name first, not ${typeof name}`);
      if (!isPlain(args)) throw new TypeError("call_tool() takes the arguments as an object: call_tool(name, {…})");
      return call(name, args);
    };
  }
  for (const { name, alias, parameters } of specs) {
    names[alias] = async (...given) => {
      if (given.length === 1 && isPlain(given[0])) return call(name, given[0]);
      if (given.length > parameters.length) {
        throw new TypeError(`${alias}() takes one object with the arguments by name, or at most ${parameters.length} `
          + `in this order (${parameters.join(", ")}), not ${given.length}`);
      }
      return call(name, Object.fromEntries(given.map((value, at) => [parameters[at], value])));
    };
    Object.defineProperty(names[alias], "name", { value: alias });
  }
  return names;
}

// Files, whole: `files.read`, `files.write` and the rest, below /workspace or by an absolute path

function onFile(op, path, more = {}) {
  const names = [];
  for (const name of `${path.startsWith("/") ? "" : "/workspace/"}${path}`.split("/")) {
    if (name === "..") names.pop();
    else if (name && name !== ".") names.push(name);
  }
  return filed({ op, path: `/${names.join("/")}`, ...more }, path);
}

function filed(question, path) {
  const answer = ask({ t: "file", ...question });
  if (answer.errno === undefined) return answer.value;
  throw Object.assign(new Error(`${answer.errno}: ${answer.text}, '${path}'`), { code: answer.errno, path });
}

const files = {
  readBytes(path) {
    const handle = onFile("open", path, { mode: "r" });
    const pieces = [];
    let at = 0;
    for (;;) {
      const piece = filed({ op: "read", handle, at, size: 128 * 1024 }, path);
      if (!piece.length) break;
      pieces.push(piece);
      at += piece.length;
    }
    filed({ op: "close", handle }, path);
    const bytes = new Uint8Array(at);
    at = 0;
    for (const piece of pieces) { bytes.set(piece, at); at += piece.length; }
    return bytes;
  },
  read: (path) => fromUtf8(binaryOf(files.readBytes(path))),
  write(path, data) {
    const bytes = data instanceof Uint8Array ? data : bytesOf(utf8(String(data)));
    const handle = onFile("open", path, { mode: "w" });
    for (let at = 0; at < bytes.length; at += 65536) {
      filed({ op: "write", handle, at, data: bytes.slice(at, at + 65536) }, path);
    }
    filed({ op: "close", handle }, path);
  },
  list: (path = ".") => onFile("list", path).map(([name]) => name),
  makeDir: (path) => void onFile("mkdir", path),
  remove: (path) => void onFile("remove", path),
};

// Timers: the machine has none, so the host sleeps, while the program only waits

function setTimer(action, ms, args, repeats) {
  const after = Math.max(Number(ms) || 0, repeats ? 1 : 0);
  state.timers.set(++state.lastTimer, { action, args, due: Date.now() + after, every: repeats ? after : null });
  return state.lastTimer;
}

async function until(promise) {
  let settled = false;
  const settle = () => { settled = true; };
  promise.then(settle, settle);
  for (;;) {
    for (let turn = 0; turn < 200 && !settled; turn++) await null;
    if (settled) return promise;
    let first = null;
    for (const [id, timer] of state.timers) if (first === null || timer.due < first[1].due) first = [id, timer];
    for (let turn = 0; first === null && turn < 100000 && !settled; turn++) await null;
    if (settled) return promise;
    if (first === null) throw new Error("the program awaits what never comes");
    const [id, timer] = first;
    const ms = timer.due - Date.now();
    if (ms > 0) ask({ t: "sleep", seconds: Math.min(ms / 1000, 1e9) });
    if (timer.every === null) state.timers.delete(id);
    else timer.due = Date.now() + timer.every;
    timer.action(...timer.args);
  }
}

// Programs

// Return what runs a program, and how many lines lie above its first in the places that errors name.
function compiled(code, hiding) {
  try {
    new Function(code);
    return [() => evaluate(code, ...hiding), 0];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const program = new (Object.getPrototypeOf(async () => {}).constructor)(...HIDDEN, code);
  return [() => program(...hiding), 2];
}

const evaluate = new Function("__code", ...HIDDEN, "return eval(__code)");

// Return where an error came from, from the innermost frame out to the program's own.
function placesIn(error, offset) {
  const places = [];
  for (const [, where, row, column] of String(error.stack ?? "").matchAll(/at (.*?) ?\(?<input>:(\d+):(\d+)\)?/g)) {
    if (Number(row) >= OURS) continue;
    places.push([where.replace("<eval>", ""), Math.max(Number(row) - offset, 1), Number(column)]);
    if (where === "<eval>") break;
  }
  return places;
}

function describe(thrown, name, offset) {
  const isError = thrown instanceof Error;
  const message = cut(isError ? String(thrown.message) : inspect(thrown, 1), 20000);
  const type = isError ? String(thrown.name) : typeof thrown;
  const places = isError ? placesIn(thrown, offset) : [];
  const frames = places.map(([where, row, column]) => `    at ${where || "<program>"} (${name}:${row}:${column})\n`);
  let kind = "RUNTIME", limit = "", hint = "";
  if (thrown instanceof ToolError) {
    kind = "TOOL";
    hint = thrown.refused
      ? "the call was refused approval; do not try it again unless asked to, go on without it"
      : "correct the call, or catch ToolError and go on without it";
  } else if (thrown?.code === "EFBIG" || thrown?.code === "ENOSPC") {
    [kind, limit, hint] = ["DISK", thrown.code === "EFBIG" ? "file_mib" : "workspace_mib", "write less"];
  } else if (thrown?.code === "EROFS" || thrown?.code === "EPERM") {
    [kind, hint] = ["POLICY", "the sandbox does not allow this; write below /workspace or /tmp only"];
  } else if (isError && type === "InternalError" && message === "out of memory") {
    [kind, limit, hint] = ["MEMORY", "memory_mib", "work on less at a time"];
  }
  return {
    kind, type, message, limit, hint, line: places.length ? places[0][1] : null,
    traceback: cut(`${isError ? `${type}: ${message}` : `Uncaught ${message}`}\n${frames.join("")}`, 50000),
  };
}

function cut(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}\n… ${text.length - most} characters left out …\n${text.slice(-half)}`;
}

// Chris Doty-Humphrey's sfc32: the engine's own generator goes on from the snapshot, the same in every run.
function randomFrom([a, b, c, d]) {
  return () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + t) | 0;
    return (t >>> 0) / 2 ** 32;
  };
}

async function run() {
  const message = answerOf(dispatch("actbox", {}));
  state.maxBytes = message.message_bytes;
  state.lastCall = 0;
  Math.random = randomFrom(message.seed);
  const name = message.name;
  const done = { t: "done", exit: 0 };
  let program, offset;
  try {
    const { call_tool: callTool, ...tools } = bindTools(message.tools);
    Object.assign(globalThis, tools, message.inputs);
    [program, offset] = compiled(message.code, [console, callTool]);
  } catch (error) {
    const row = placesIn(error, 2)[0]?.[1] ?? 1;
    const hint = `correct line ${row} and send the whole program again`;
    done.exit = 1;
    done.error = { ...describe(error, name, 2), kind: "SYNTAX", line: row, hint };
  }
  if (program !== undefined) {
    Object.assign(process.env, message.variables);
    try {
      let value = program();
      if (value instanceof Promise) value = await until(value);
      if (value !== undefined && value !== null) describeValue(value, done);
    } catch (thrown) {
      if (!(thrown instanceof Exit)) {
        done.exit = 1;
        done.error = describe(thrown, name, offset);
      } else if (thrown.code) {
        const said = `the program ended itself with exit code ${thrown.code}`;
        done.exit = thrown.code;
        done.error = { kind: "EXIT", type: "", message: said };
      }
    }
    state.timers.clear();
  }
  try {
    ask(done);
  } catch {
    delete done.value;
    if (done.text) done.text = cut(done.text, 2000);
    state.maxBytes += 65536;
    ask(done);
  }
}

function describeValue(value, done) {
  done.text = cut(inspect(value, 1), MAX_TEXT);
  let json;
  try {
    checkPlain(value, "the value");
    json = JSON.stringify(value);
  } catch {
    return;
  }
  if (json !== undefined && json.length <= state.maxBytes / 4) done.value = JSON.parse(json);
}

const process = {
  argv: [], env: {}, platform: "hyperlight", cwd: () => "/workspace",
  exit(code = 0) { throw new Exit(Number(code) & 255); },
};
Object.assign(globalThis, {
  files, process,
  setTimeout: (action, ms, ...args) => setTimer(action, ms, args, false),
  setInterval: (action, ms, ...args) => setTimer(action, ms, args, true),
  clearTimeout: (id) => void state.timers.delete(id),
  clearInterval: (id) => void state.timers.delete(id),
});
Object.defineProperty(globalThis, "__actbox", { value: run });
})();
