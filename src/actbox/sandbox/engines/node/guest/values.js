// What the last expression's value looks like from outside: in the tagged form where it has one, text always.
"use strict";

const { inspect } = require("node:util");
const { CannotCross, TooLong, encode } = require("./wire.js");

const MAX_TEXT = 100_000;

// Return the parts of a result that tell of a value: `value` and `text`. A value that cannot cross, or takes more than
// `maxBytes`, is left out, and `lost` says why.
function describeValue(value, maxBytes) {
  const described = { text: cut(textOf(value), MAX_TEXT) };
  try {
    encode({ value }, maxBytes);
    described.value = value;
  } catch (error) {
    const said = error instanceof TooLong ? `${error.message} (a quarter of message_bytes); write it to a file below output/` : "looking at it threw"; // its own getter or toJSON did
    described.lost = (error instanceof CannotCross ? error.within("value") : `value: ${said}`).slice(0, 400);
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
