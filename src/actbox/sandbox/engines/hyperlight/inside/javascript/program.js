// Runs programs: what the host asks for comes in, what came of it goes out.

const OURS = 200000; // how many lines down these files are evaluated, so that their frames can be told from a program's
// The library's own names cannot be taken from the global object, so that programs run where others hide them.
const HIDDEN = ["console", "call_tool", "require", "print", "read_file", "read_file_bytes", "write_file", "fetch"];
const MAX_TEXT = 100000;

class Exit { constructor(code) { this.code = code; } }

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

function describe(thrown, name, offset, code) {
  const isError = thrown instanceof Error;
  const message = cut(isError ? String(thrown.message) : inspect(thrown, 1), 20000);
  const type = isError ? String(thrown.name) : typeof thrown;
  const places = isError ? placesIn(thrown, offset) : [];
  const frames = places.map(([where, row, column]) => `    at ${where || "<program>"} (${name}:${row}:${column})\n`);
  const row = places.length ? places[0][1] : 0;
  const shown = row ? `${name}:${row}\n${cut(code.split(/\r\n|[\n\r\u2028\u2029]/)[row - 1] ?? "", 1000)}\n\n` : "";
  let kind = "RUNTIME", limit = "", hint = "";
  if (thrown instanceof ToolError) {
    kind = "TOOL";
    hint = thrown.refused
      ? "the call was refused approval; do not try it again unless asked to, go on without it"
      : "change the call, or catch ToolError and go on without it";
  } else if (thrown?.code === "ENETWORK" || (type === "ReferenceError" && message.includes("http_request"))) {
    kind = "NETWORK";
    hint = thrown.code ? "only hosts that the policy allows can be reached, and as it allows"
      : "this sandbox has no network; use the tools or the files that it was given";
  } else if (thrown?.code === "EFBIG" || thrown?.code === "ENOSPC") {
    [kind, limit, hint] = ["DISK", thrown.code === "EFBIG" ? "file_mib" : "workspace_mib", "write less"];
  } else if (thrown?.code === "EROFS" || thrown?.code === "EPERM") {
    [kind, hint] = ["POLICY", "the sandbox does not allow this; write below /workspace or /tmp only"];
  } else if (isError && type === "InternalError" && message === "out of memory") {
    [kind, limit, hint] = ["MEMORY", "memory_mib", "work on less at a time"];
  }
  return {
    kind, type, message, limit, hint, line: row || null,
    traceback: cut(`${shown}${isError ? `${type}: ${message}` : `Uncaught ${message}`}\n${frames.join("")}`, 50000),
  };
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

async function run(given) {
  const message = given ? decode(atob(given)) : answerOf(dispatch("actbox", {}));
  state.maxBytes = message.message_bytes;
  state.lastCall = 0;
  Math.random = randomFrom(message.seed);
  const name = message.name;
  const done = { t: "done", exit: 0 };
  let program, offset;
  try {
    const { call_tool: callTool, ...tools } = bindTools(message.tools, message.network);
    Object.assign(globalThis, tools, message.inputs);
    [program, offset] = compiled(message.code, [console, callTool]);
  } catch (error) {
    const row = placesIn(error, 2)[0]?.[1] ?? 1;
    const hint = `programs here are JavaScript: correct line ${row} and send the whole program again`;
    done.exit = 1;
    done.error = { ...describe(error, name, 2, message.code), kind: "SYNTAX", line: row, hint };
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
        done.error = describe(thrown, name, offset, message.code);
      } else if (thrown.code) {
        const said = `the program ended itself with exit code ${thrown.code}`;
        done.exit = thrown.code;
        done.error = { kind: "EXIT", type: "", message: said };
      }
    }
    timers.waiting.clear();
  }
  try {
    ask(done);
  } catch {
    if (done.value !== undefined) done.lost = "value: the result has no room for it; give large data as text or bytes";
    delete done.value;
    if (done.text) done.text = cut(done.text, 2000);
    state.maxBytes += 65536;
    ask(done);
  }
}

function describeValue(value, done) {
  done.text = cut(inspect(value, 1), MAX_TEXT);
  const most = state.maxBytes / 4;
  try {
    const [json, blobs] = shared.writeMessage({ value });
    const size = blobs.reduce((sum, blob) => sum + blob.length, json.length);
    if (size <= most) done.value = value;
    else done.lost = `value: a message of ${size} bytes; the limit is ${most} (a quarter of message_bytes)`;
  } catch (error) {
    done.lost = (error instanceof shared.CannotCross ? error.within("value") : "value: looking at it threw").slice(0, 400);
  }
}

const process = {
  argv: [], env: {}, platform: "hyperlight", cwd: () => "/workspace",
  exit(code = 0) { throw new Exit(Number(code) & 255); },
};
Object.assign(globalThis, {
  files, process,
  setTimeout: (action, ms, ...args) => setTimer(action, ms, args, false),
  setInterval: (action, ms, ...args) => setTimer(action, ms, args, true),
  clearTimeout: (id) => void timers.waiting.delete(id),
  clearInterval: (id) => void timers.waiting.delete(id),
});
Object.defineProperty(globalThis, "__actbox", { value: run });
