// Frames of the channel, as `sandbox/guest/wire.py` has them: two lengths, JSON, blobs. Pure: values in, bytes out.
"use strict";

const { isAnyArrayBuffer, isArrayBufferView, isPromise, isProxy } = require("node:util").types;

const HEADER = 8;
// The bounds that the host has too: a message beyond them would end the guest.
const MAX_VALUES = 2_000_000;
const VALUES_OF_A_CONTAINER = 10;
const MAX_DEPTH = 200;
const MAX_DIGITS = 4300;
// What a message may have on top of what it carries.
const ENVELOPE_BYTES = 65536;
// A whole number that has as many digits may be none that a double can be.
const LONG_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;
const LONG_INTEGER_SOMEWHERE = /\d{16}/;
const BLOB = "\0";
// A key that nobody can guess, so that no object of the host's is taken for a whole number.
const INTEGER = `integer ${require("node:crypto").randomBytes(12).toString("hex")}`;

class NotJson extends TypeError {}

class TooLong extends Error {}

// Return the JSON of a value, and put bytes in it into `blobs`; with `null` for that, bytes are refused. In a message
// with blobs, a key of the value's own that begins with NUL is `marked` by one more. Raises `NotJson`, which says where
// and why.
function toJson(value, blobs, marked = false) {
  let values = 0;
  const open = new Set();

  function count(weight) {
    values += weight;
    if (values > MAX_VALUES) {
      throw new NotJson(
        `more than ${MAX_VALUES} values in one message, where an array or an object counts as ` +
          `${VALUES_OF_A_CONTAINER}; give large data as text or bytes`,
      );
    }
  }

  function refuse(what, path) {
    throw new NotJson(path ? `${what} at ${path}` : what);
  }

  function ofObject(given, path) {
    if (isArrayBufferView(given) || isAnyArrayBuffer(given)) {
      if (blobs === null) refuse("bytes", path);
      const bytes = isArrayBufferView(given)
        ? Buffer.from(given.buffer, given.byteOffset, given.byteLength)
        : Buffer.from(given);
      count(VALUES_OF_A_CONTAINER);
      blobs.push(Buffer.from(bytes));
      return `{"\\u0000":${blobs.length - 1}}`;
    }
    if (isPromise(given)) refuse("a Promise, which has to be awaited first,", path);
    if (isProxy(given)) refuse("a Proxy", path);
    if (open.has(given)) refuse("a cycle", path);
    if (open.size >= MAX_DEPTH) refuse(`values nested more than ${MAX_DEPTH} deep`, "");
    open.add(given);
    count(VALUES_OF_A_CONTAINER);
    const text = Array.isArray(given) ? ofArray(given, path) : ofPlain(given, path);
    open.delete(given);
    return text;
  }

  function ofArray(given, path) {
    const parts = [];
    for (let at = 0; at < given.length; at++) {
      if (at) count(1);
      parts.push(of(given[at], `${path}[${at}]`));
    }
    return `[${parts.join(",")}]`;
  }

  function ofPlain(given, path) {
    const name = Object.prototype.toString.call(given).slice(8, -1);
    if (name !== "Object") refuse(`a ${given.constructor?.name || name}`, path);
    const parts = [];
    for (const key of Object.keys(given)) {
      const item = given[key];
      if (item === undefined) continue; // as JSON.stringify has it: an option that was not given
      if (parts.length) count(1);
      const shown = JSON.stringify(marked && key.startsWith(BLOB) ? BLOB + key : key);
      parts.push(`${shown}:${of(item, path ? `${path}.${key}` : key)}`);
    }
    return `{${parts.join(",")}}`;
  }

  function of(given, path) {
    switch (typeof given) {
      case "string":
        return JSON.stringify(given);
      case "boolean":
        return String(given);
      case "number":
        if (!Number.isFinite(given)) refuse(String(given), path);
        return String(given);
      case "bigint": {
        const digits = String(given);
        if (digits.length > MAX_DIGITS) refuse(`an integer of more than ${MAX_DIGITS} digits`, path);
        return digits;
      }
      case "object":
        if (given === null) return "null";
        return typeof given.toJSON === "function" && !ArrayBuffer.isView(given)
          ? of(given.toJSON(), path)
          : ofObject(given, path);
      default:
        return refuse(given === undefined ? "undefined" : `a ${typeof given}`, path);
    }
  }

  return of(value, "");
}

// Return the frame of a message whose JSON is text already.
function frame(text, blobs, maxBytes) {
  const size = Buffer.byteLength(text);
  const carried = blobs.reduce((sum, blob) => sum + blob.length, 0);
  if (size + carried > maxBytes) throw new TooLong(`a message of ${size + carried} bytes; the limit is ${maxBytes}`);
  const bytes = Buffer.allocUnsafe(HEADER + size + carried);
  bytes.writeUInt32BE(size, 0);
  bytes.writeUInt32BE(carried, 4);
  bytes.write(text, HEADER);
  let at = HEADER + size;
  for (const blob of blobs) at += blob.copy(bytes, at);
  return bytes;
}

// Return the frame of a message. Raises `NotJson` and `TooLong`.
function encode(message, maxBytes) {
  const blobs = [];
  let text = toJson(message, blobs);
  if (blobs.length && text.includes('"\\u0000')) text = toJson(message, (blobs.length = 0, blobs), true);
  if (blobs.length) text = `${text.slice(0, -1)},"blobs":[${blobs.map((blob) => blob.length).join(",")}]}`;
  return frame(text, blobs, maxBytes);
}

// Return the message of a frame: bytes are Uint8Arrays, whole numbers that no double can be are BigInts.
function decode(text, carried) {
  let replaced = false;
  if (LONG_INTEGER_SOMEWHERE.test(text)) {
    text = text.replace(LONG_NUMBER, (part) => {
      if (!LONG_INTEGER.test(part) || Number.isSafeInteger(Number(part))) return part;
      replaced = true;
      return `{"${INTEGER}":"${part}"}`;
    });
  }
  const message = JSON.parse(text);
  const { blobs: sizes } = message;
  if (sizes === undefined) return replaced ? place(message, null) : message;
  delete message.blobs;
  const blobs = [];
  let at = 0;
  for (const size of sizes) {
    blobs.push(new Uint8Array(carried.buffer, carried.byteOffset + at, size).slice());
    at += size;
  }
  return place(message, blobs);
}

function place(value, blobs) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => place(item, blobs));
  const keys = Object.keys(value);
  if (blobs !== null && keys.length === 1 && keys[0] === BLOB) return blobs[value[BLOB]];
  if (keys.length === 1 && keys[0] === INTEGER) return BigInt(value[INTEGER]);
  const placed = {};
  for (const key of keys) {
    const own = blobs !== null && key.startsWith(BLOB) ? key.slice(1) : key;
    Object.defineProperty(placed, own, {
      value: place(value[key], blobs),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return placed;
}

// Gathers received bytes, and gives out each message once it is complete.
class FrameReader {
  #chunks = [];
  #size = 0;

  add(bytes) {
    this.#chunks.push(bytes);
    this.#size += bytes.length;
  }

  // How many bytes have to come, at least, before `take` has anything more to return.
  get missing() {
    return Math.max((this.#size < HEADER ? HEADER : this.#length()) - this.#size, 0);
  }

  take() {
    if (this.#size < HEADER || this.#size < this.#length()) return undefined;
    const [whole] = this.#join();
    const end = HEADER + whole.readUInt32BE(0);
    const length = this.#length();
    const message = decode(whole.toString("utf8", HEADER, end), whole.subarray(end, length));
    this.#chunks = [whole.subarray(length)];
    this.#size -= length;
    return message;
  }

  #length() {
    if (this.#chunks[0].length < HEADER) this.#join();
    const [first] = this.#chunks;
    return HEADER + first.readUInt32BE(0) + first.readUInt32BE(4);
  }

  #join() {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks;
  }
}

module.exports = { ENVELOPE_BYTES, FrameReader, NotJson, TooLong, encode, frame, toJson };
