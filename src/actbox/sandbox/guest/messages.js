// Messages of the channel in JavaScript: JSON text, with bytes beside it, as `wire.py` has them. Pure; all guests in
// JavaScript use it.
"use strict";

const { CannotCross, MAX_DEPTH, VALUES_OF_A_CONTAINER, counter, opened, pack } = require("./tagged.js");

const MAY_BE_TAGGED = ["args", "value"];
const BLOB = "\0";
// A whole number that has as many digits may be none that a double can be.
const LONG_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
const LONG_INTEGER = /^-?\d{16,}$/;
const LONG_INTEGER_SOMEWHERE = /\d{16}/;

// Return a message as text, and the bytes that go beside it. Raises `CannotCross`, with the place within its field.
function writeMessage(message, isProxy) {
  const packed = {};
  const tagged = [];
  const count = counter();
  count(3 * VALUES_OF_A_CONTAINER); // the message, and its lists of tagged fields and of blobs
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined) continue;
    count(2);
    const [form, hasTags] = pack(value, count, isProxy);
    packed[name] = form;
    if (!hasTags) continue;
    if (!MAY_BE_TAGGED.includes(name)) throw new CannotCross("has a value that JSON lacks");
    tagged.push(name);
  }
  if (tagged.length) packed.tagged = tagged;
  const blobs = [];
  let text = toJson(packed, blobs, false);
  if (blobs.length && text.includes('"\\u0000')) text = toJson(packed, (blobs.length = 0, blobs), true);
  if (blobs.length) text = `${text.slice(0, -1)},"blobs":[${blobs.map((blob) => blob.length).join(",")}]}`;
  return [text, blobs];
}

// Return the JSON of JSON data with BigInts and bytes, of which the latter are put into `blobs`. In a message with
// blobs, a key of the data's own that begins with NUL is `marked` by one more. Raises `CannotCross`.
function toJson(data, blobs, marked) {
  function ofContainer(given, depth) {
    if (depth > MAX_DEPTH) throw new CannotCross(`is nested more than ${MAX_DEPTH} deep`);
    if (given instanceof Uint8Array) return `{"\\u0000":${blobs.push(new Uint8Array(given)) - 1}}`;
    const isArray = Array.isArray(given);
    const parts = [];
    for (const item of isArray ? given : Object.keys(given)) {
      if (isArray) parts.push(of(item, depth));
      else parts.push(`${JSON.stringify(marked && item.startsWith(BLOB) ? BLOB + item : item)}:${of(given[item], depth)}`);
    }
    return isArray ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
  }

  function of(given, depth) {
    if (typeof given === "object" && given !== null) return ofContainer(given, depth + 1);
    if (typeof given !== "number") return typeof given === "bigint" ? String(given) : JSON.stringify(given);
    // As an integer its digits would be of another number, since JavaScript writes no more of them than it must.
    const isInexact = Number.isInteger(given) && !Number.isSafeInteger(given) && Math.abs(given) < 1e21;
    return isInexact ? `${given}.0` : String(given);
  }

  return of(data, 0);
}

// Return the message of a text; `take` returns the next so many bytes of those beside it. Bytes are Uint8Arrays, whole
// numbers that no double can be are BigInts.
function readMessage(text, take) {
  // A key that the message has not, so that no object of it is taken for a whole number.
  let integer = "";
  if (LONG_INTEGER_SOMEWHERE.test(text)) {
    const taken = new Set(text.match(/"integer\d+"/g));
    let number = 0;
    while (taken.has(`"integer${number}"`)) number++;
    const key = `integer${number}`;
    text = text.replace(LONG_NUMBER, (part) => {
      if (!LONG_INTEGER.test(part) || Number.isSafeInteger(Number(part))) return part;
      integer = key;
      return `{"${key}":"${part}"}`;
    });
  }
  let message = JSON.parse(text);
  const blobs = message.blobs?.map(take);
  delete message.blobs;
  if (integer || blobs) message = place(message, blobs, integer);
  for (const name of message.tagged ?? []) message[name] = opened(message[name]);
  delete message.tagged;
  return message;
}

function place(value, blobs, integer) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => place(item, blobs, integer));
  const keys = Object.keys(value);
  if (blobs && keys.length === 1 && keys[0] === BLOB) return blobs[value[BLOB]];
  if (integer && keys.length === 1 && keys[0] === integer) return BigInt(value[integer]);
  const placed = {};
  for (const key of keys) {
    const own = blobs && key.startsWith(BLOB) ? key.slice(1) : key;
    Object.defineProperty(placed, own, {
      value: place(value[key], blobs, integer),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return placed;
}

module.exports = { readMessage, writeMessage };
