// How values look, much as Node shows them, and a console that says so.

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
    const sized = Array.isArray(value) ? "" : `${name}(${value.length}) `;
    return `${sized}${items.length ? `[ ${items.join(", ")} ]` : "[]"}`;
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

function cut(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}\n… ${text.length - most} characters left out …\n${text.slice(-half)}`;
}
