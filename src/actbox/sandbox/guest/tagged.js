// The tagged form (`tagged.py`) in JavaScript: values as JSON data, and back. Pure; all guests in JavaScript use it.
"use strict";

const MAX_DIGITS = 4300;
const MAX_DEPTH = 200;
const MAX_KEYS = 10_000;
// The bounds of one message that the host has too (`wire.py`): a message beyond them would end the guest.
const MAX_VALUES = 2_000_000;
const VALUES_OF_A_CONTAINER = 10;
// The host's bounds on numbers of one hash in a set (`members.py`). It counts 250 of one hash; null, NaN, the infinities
// and a date may have any.
const MAX_SAME_HASHES = 245;
const MAX_COMPARED = 2_000_000;
const HASH_MODULUS = 2n ** 61n - 1n;
// Python's own text of each Date that came from it: a Date has neither a zone nor microseconds.
const texts = new WeakMap();

// A value that has no tagged form; `place` is where it stands, such as `.rows[0]`.
class CannotCross extends TypeError {
  place = "";
  constructor(why) {
    super(why);
    this.why = why;
  }
  // Return the sentence; `name` is what the whole value is called.
  within(name) {
    const { place } = this;
    const shown = place.length > 120 ? `${place.slice(0, 60)}…${place.slice(-60)}` : place;
    return `${name}${shown} ${this.why}`;
  }
}

// Return the tagged form of a value, and whether there is a tag in it. BigInts and bytes (as Uint8Array) stay as they
// are. `count` is a counter of the message's values. Raises `CannotCross`.
function pack(value, count, isProxy = () => false) {
  const open = new Set();
  let hasTags = false;
  let comparisons = MAX_COMPARED;

  function tag(name, content) {
    hasTags = true;
    count(VALUES_OF_A_CONTAINER);
    return { [name]: content };
  }

  function refuse(why) {
    throw new CannotCross(why);
  }

  function inner(given, key) {
    try {
      return of(given);
    } catch (error) {
      if (error instanceof CannotCross) {
        const shown = typeof key === "string" ? `.${key}` : `[${shownKey(key)}]`;
        error.place = `${shown.slice(0, 200)}${error.place}`;
      }
      throw error;
    }
  }

  // Count a list in the message's text, before its items are packed: a small value may have a tree of any size.
  function countList(length) {
    count(VALUES_OF_A_CONTAINER + Math.max(length - 1, 0));
  }

  function ofObject(given) {
    if (kindOf(given) === "Promise") refuse("is a Promise, which has to be awaited first");
    if (isProxy(given)) refuse("is a Proxy, which cannot cross");
    if (kindOf(given) === "Date") return ofDate(given);
    if (typeof given.toJSON === "function") return of(given.toJSON());
    if (open.has(given)) refuse("is a cycle");
    if (open.size >= MAX_DEPTH) refuse(`is nested more than ${MAX_DEPTH} deep`);
    open.add(given);
    const form = ofContainer(given);
    open.delete(given);
    return form;
  }

  function ofContainer(given) {
    if (Array.isArray(given) || ArrayBuffer.isView(given)) {
      countList(given.length);
      return Array.from(given, inner);
    }
    const kind = kindOf(given);
    if (kind === "Set") return tag("!set", members([...given]));
    if (kind === "Map") return ofMap(given);
    if (kind !== "Object") refuse(`is of type ${given.constructor?.name || kind}, which cannot cross; give it as plain values`);
    const form = Object.create(null); // in which no key means anything
    count(VALUES_OF_A_CONTAINER);
    for (const key of Object.keys(given)) {
      const item = given[key];
      if (item === undefined) continue; // as JSON.stringify has it: an option that was not given
      count(1);
      form[key] = inner(item, key);
    }
    return escaped(form);
  }

  // An object that looks like a tag is a list of its pairs.
  function escaped(form) {
    const keys = Object.keys(form);
    if (keys.length !== 1 || !keys[0].startsWith("!")) return form;
    count(2 * VALUES_OF_A_CONTAINER + 1);
    return tag("!map", [[keys[0], form[keys[0]]]]);
  }

  function ofMap(given) {
    const keys = members([...given.keys()]);
    const pairs = [...given].map(([key, item], at) => [keys[at], inner(item, key)]);
    if (!keys.every((key) => typeof key === "string")) {
      count((VALUES_OF_A_CONTAINER + 1) * pairs.length);
      return tag("!map", pairs);
    }
    const form = Object.create(null);
    for (const [key, item] of pairs) form[key] = item;
    return escaped(form);
  }

  function ofBytes(given) {
    const bytes = bytesOf(given);
    if (bytes) count(VALUES_OF_A_CONTAINER + 1); // its size stands in the message's list of blobs
    return bytes;
  }

  function ofDate(given) {
    const ms = given.getTime();
    const known = texts.get(given);
    if (known?.ms === ms) return tag("!datetime", known.text);
    const year = given.getUTCFullYear();
    if (!(year >= 1 && year <= 9999)) refuse("is a Date that no datetime of Python can be");
    const [text, , fraction] = /^(.*)(\.(\d+))Z$/.exec(given.toISOString()).slice(1);
    return tag("!datetime", `${text}${fraction === "000" ? "" : `.${fraction}000`}+00:00`);
  }

  // Return the forms of a set's members or a map's keys, which must be ones in Python too, and differ there.
  function members(given) {
    countList(given.length);
    const forms = given.map((each) => inner(each, each));
    if (forms.filter((form) => typeof form !== "string").length > MAX_KEYS) {
      refuse(`has more than ${MAX_KEYS} keys or members that are no text; give an array`);
    }
    const seen = new Set();
    const alike = new Map();
    forms.forEach((form, at) => {
      compare(form, alike);
      const same = identity(form);
      if (same === undefined) refuse(`has ${shownKey(given[at])} as a key or member, which cannot be one in Python`);
      if (seen.has(same)) refuse(`has two keys or members that are the same in Python, such as ${shownKey(given[at])}`);
      seen.add(same);
    });
    return forms;
  }

  // Count the comparisons that Python makes for a number beside those of the same hash.
  function compare(form, alike) {
    if (typeof form !== "number" && typeof form !== "bigint") return;
    const hash = hashOf(form);
    const [same, known] = alike.get(hash) ?? [0, 1];
    const cost = Math.max(known, 1 + Math.floor(form.toString(16).length / 1024));
    alike.set(hash, [same + 1, cost]);
    comparisons -= same * cost;
    if (same >= MAX_SAME_HASHES || comparisons < 0) {
      refuse("has too many numbers as keys or members that have one hash in Python; give an array");
    }
  }

  function of(given) {
    switch (typeof given) {
      case "string":
      case "boolean":
        return given;
      case "number":
        return Number.isFinite(given) ? given : tag("!float", given > 0 ? "inf" : given < 0 ? "-inf" : "nan");
      case "bigint":
        return String(given).replace("-", "").length > MAX_DIGITS
          ? refuse(`is an integer of more than ${MAX_DIGITS} digits; give it as text`)
          : given;
      case "object":
        if (given === null) return null;
        return ofBytes(given) ?? ofObject(given);
      default:
        return refuse(given === undefined ? "is undefined" : `is a ${typeof given}, which cannot cross`);
    }
  }

  return [of(value), hasTags];
}

// Return what counts the values of one message, and raises `CannotCross` once they are too many.
function counter() {
  let values = 0;
  return (more) => {
    values += more;
    if (!(values <= MAX_VALUES)) {
      throw new CannotCross(
        `has, or is part of, more than ${MAX_VALUES} values in one message, where an array or an object counts as ` +
          `${VALUES_OF_A_CONTAINER}; give large data as text or bytes`,
      );
    }
  };
}

// Return the name of an object's built-in type, also of one from another realm, where `instanceof` fails.
function kindOf(given) {
  return Object.prototype.toString.call(given).slice(8, -1);
}

// Return the bytes of what has bytes; arrays of other numbers than bytes have none.
function bytesOf(given) {
  const kind = kindOf(given);
  if (ArrayBuffer.isView(given)) {
    if (given instanceof Uint8Array) return given;
    const isOfBytes = ["Uint8Array", "Uint8ClampedArray", "DataView"].includes(kind);
    return isOfBytes ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength) : undefined;
  }
  return kind === "ArrayBuffer" || kind === "SharedArrayBuffer" ? new Uint8Array(given) : undefined;
}

// Return what two forms have in common that are equal in Python; nothing for what has no hash there.
function identity(form) {
  if (typeof form === "string") return `s${form}`;
  if (typeof form === "boolean") return `n${Number(form)}`;
  if (typeof form === "number") return `n${Number.isInteger(form) ? BigInt(form) : form}`;
  if (typeof form !== "object" || form === null) return `n${form}`;
  if (form instanceof Uint8Array) return `b${form.join()}`;
  if (Object.hasOwn(form, "!float")) return `f${form["!float"]}`;
  return Object.hasOwn(form, "!datetime") ? `d${instantOf(form["!datetime"])}` : undefined;
}

// Return what two texts of datetimes have in common that are equal in Python: one without a zone equals no other text.
function instantOf(text) {
  if (!/[+-]\d\d:\d\d$/.test(text)) return text;
  const microseconds = /\.\d{3}(\d{3})/.exec(text)?.[1] ?? "000";
  return `${dateOf(text)?.getTime()}.${microseconds}`;
}

// Return Python's hash of a number: its remainder, where halving multiplies by 2 ** 60 since 2 ** 61 leaves 1.
function hashOf(number) {
  let shift = 0;
  while (typeof number === "number" && !Number.isInteger(number)) {
    number *= 2;
    shift = (shift + 60) % 61;
  }
  return (BigInt(number) << BigInt(shift)) % HASH_MODULUS;
}

function shownKey(key) {
  if (typeof key === "string") return JSON.stringify(key);
  return typeof key === "object" && key !== null ? `a value of type ${key.constructor?.name}` : String(key);
}

// Return the Date of a text of Python's, which is undefined where there is none.
function dateOf(text) {
  const date = new Date(text.replace(/(\.\d{3})\d+/, "$1"));
  return Number.isNaN(date.getTime()) ? undefined : date;
}

// Return the value of a tagged form, whose arrays and objects it takes. What JavaScript has no type for is its text.
function opened(value) {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = opened(value[at]);
    return value;
  }
  const keys = Object.keys(value);
  if (keys.length !== 1 || !keys[0].startsWith("!")) {
    for (const key of keys) value[key] = opened(value[key]);
    return value;
  }
  const given = value[keys[0]];
  // A mapping is an object if its keys are text in Python too; dates and UUIDs become text only here.
  const isObject = keys[0] === "!map" && given.every(([key]) => typeof key === "string");
  const content = opened(given);
  switch (keys[0]) {
    case "!set":
    case "!frozenset":
      return new Set(content);
    case "!map":
      return isObject ? Object.fromEntries(content) : new Map(content);
    case "!float":
      return { nan: NaN, inf: Infinity, "-inf": -Infinity }[content];
    case "!timedelta":
      return content[0] * 86400 + content[1] + content[2] / 1e6;
    case "!datetime": {
      const date = dateOf(content);
      if (date !== undefined) texts.set(date, { ms: date.getTime(), text: content });
      return date ?? content;
    }
    default: // a tuple is an array; dates, times, decimals and UUIDs are text
      return content;
  }
}

module.exports = { CannotCross, MAX_DEPTH, VALUES_OF_A_CONTAINER, counter, opened, pack };
