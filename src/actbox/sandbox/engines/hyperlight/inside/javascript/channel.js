// The way to the host: a function that the library lends, called with short texts; frames as in guest/wire.py.

const PIECE = 8 * 1024; // the library's buffer for one call has 16 KiB
const dispatch = globalThis.call_tool;
const state = { lastCall: 0, maxBytes: 2 ** 20 };

class TooLong extends Error {}

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
  if (typeof value !== "object") {
    const what = typeof value === "number" ? value : `a ${typeof value}`;
    throw new TypeError(`${path} is ${what}, which JSON does not have`);
  }
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
