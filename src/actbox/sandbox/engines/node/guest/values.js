// What the last expression's value looks like from outside: JSON where it can be, text always.
"use strict";

const { inspect } = require("node:util");
const { NotJson, toJson } = require("./wire.js");

const MAX_TEXT = 100_000;

// Return the parts of a result that tell of a value: `value`, as JSON text in a holder, if it is JSON, and `text`.
function describeValue(value, maxBytes) {
  const described = { text: cut(textOf(value), MAX_TEXT) };
  try {
    const json = toJson(value, null);
    if (Buffer.byteLength(json) <= maxBytes) described.value = value;
  } catch (error) {
    if (!(error instanceof NotJson)) return described; // its own getter or toJSON threw: it is no JSON
  }
  return described;
}

function textOf(value) {
  try {
    return inspect(value, { depth: 4, breakLength: 100, maxArrayLength: 200, maxStringLength: MAX_TEXT });
  } catch (error) {
    return `(it cannot be shown: looking at it threw ${error?.name})`;
  }
}

// Return the beginning and the end of a text that is longer than `most` characters, and how much is missing.
function cut(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}\n… ${text.length - most} characters left out …\n${text.slice(-half)}`;
}

module.exports = { cut, describeValue, textOf };
