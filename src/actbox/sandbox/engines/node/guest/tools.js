// The run's tools as the program sees them: functions by name, and `call_tool`.
"use strict";

const { ToolError } = require("./tool_error.js");

// Return the names that a program gets: `ToolError`, each tool and, where there are any, `call_tool`.
function bindTools(specs, channel, programName) {
  const names = { ToolError };
  const asking = new Set(specs.filter((spec) => spec.asks).flatMap((spec) => [spec.name, spec.alias]));

  function call(name, args, caller) {
    const where = {};
    Error.captureStackTrace(where, caller);
    return channel.call(name, args, asking.has(name) ? lineIn(where, programName) : undefined, where);
  }

  if (specs.length) {
    names.call_tool = async function call_tool(name, args = {}) {
      if (typeof name !== "string") throw new TypeError(`call_tool() takes a tool's name first, not ${typeof name}`);
      if (!isPlain(args)) throw new TypeError("call_tool() takes the arguments as an object: call_tool(name, {…})");
      return call(name, args, call_tool);
    };
  }
  for (const spec of specs) {
    const tool = async (...given) => call(spec.name, argumentsOf(spec, given), tool);
    Object.defineProperty(tool, "name", { value: spec.alias });
    names[spec.alias] = tool;
  }
  return names;
}

// One object has the arguments by name, unless none of its keys is the name of one: then it is the first of them, as
// anything else is bound to the parameters in their order.
function argumentsOf({ alias, parameters }, given) {
  if (given.length === 1 && isPlain(given[0])) {
    const keys = Object.keys(given[0]);
    if (!parameters.length || !keys.length || keys.some((key) => parameters.includes(key))) return given[0];
  }
  if (given.length > parameters.length) {
    throw new TypeError(
      `${alias}() takes one object with the arguments by name, or at most ${parameters.length} in this order ` +
        `(${parameters.join(", ")}), not ${given.length}`,
    );
  }
  return Object.fromEntries(given.map((value, at) => [parameters[at], value]));
}

function isPlain(value) {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function lineIn(where, programName) {
  for (const frame of String(where.stack).split("\n")) {
    const at = frame.lastIndexOf(`${programName}:`);
    const line = at < 0 ? NaN : Number.parseInt(frame.slice(at + programName.length + 1), 10);
    if (line > 0) return line;
  }
  return undefined;
}

module.exports = { bindTools };
