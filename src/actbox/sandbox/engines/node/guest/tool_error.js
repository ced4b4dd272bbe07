// What a program catches when a tool call failed.
"use strict";

// `tool` is the tool's name; `refused`, whether approval was refused; `builtin`, the name of the built-in exception of
// Python that the tool raised, such as "ValueError", or nothing. The stack is that of the call.
class ToolError extends Error {
  constructor(message, tool = "", where = undefined, { refused = false, builtin = "" } = {}) {
    super(message);
    this.tool = tool;
    this.refused = refused;
    this.builtin = builtin;
    if (where !== undefined) {
      const frames = String(where.stack).replace(/^[^]*?\n(?= {4}at )/, "");
      Object.defineProperty(this, "stack", {
        value: `ToolError: ${message}\n${frames}`,
        writable: true,
        configurable: true,
        enumerable: false,
      });
    }
  }
}
ToolError.prototype.name = "ToolError";

module.exports = { ToolError };
