// The run's tools as the program sees them: async functions by name, and `call_tool`.

class ToolError extends Error {
  constructor(message, tool = "", { refused = false, builtin = "" } = {}) {
    super(message);
    this.tool = tool;
    this.refused = refused;
    this.builtin = builtin; // the name of the built-in exception of Python that the tool raised
  }
}
ToolError.prototype.name = "ToolError";

const isPlain = (value) => value !== null && typeof value === "object"
  && [null, Object.prototype].includes(Object.getPrototypeOf(value));

function call(tool, args) {
  let answer;
  try {
    answer = ask({ t: "call", id: ++state.lastCall, tool, args });
  } catch (error) {
    if (error instanceof TooLong) throw new ToolError(`the arguments are too large: ${error.message}`, tool);
    if (!(error instanceof shared.CannotCross)) throw error;
    throw new ToolError(error.within("the call was not made: arguments"), tool);
  }
  if (answer.error !== undefined) throw new ToolError(answer.error, tool, answer);
  return answer.value;
}

// The host makes the request; what it answers is an object with status, headers, text and content.
async function http_request(...given) {
  const [args, kwargs] = given.length === 1 && isPlain(given[0]) ? [[], given[0]] : [given, {}];
  const answer = ask({ t: "request", args: args.map((value) => value ?? null), kwargs });
  if (answer.raised === undefined) return answer.value;
  if (answer.raised === "TypeError") throw new TypeError(answer.text);
  throw Object.assign(new Error(answer.text), { name: answer.raised, code: "ENETWORK" });
}

function bindTools(specs, hasNetwork) {
  const names = hasNetwork ? { ToolError, http_request } : { ToolError };
  if (specs.length) {
    names.call_tool = async function call_tool(name, args = {}) {
      if (typeof name !== "string") throw new TypeError(`call_tool() takes a tool's name first, not ${typeof name}`);
      if (!isPlain(args)) throw new TypeError("call_tool() takes the arguments as an object: call_tool(name, {…})");
      return call(name, args);
    };
  }
  for (const { name, alias, parameters } of specs) {
    names[alias] = async (...given) => {
      // One object has the arguments by name, unless none of its keys is the name of one: then it is the first of them.
      if (given.length === 1 && isPlain(given[0])) {
        const keys = Object.keys(given[0]);
        if (!parameters.length || !keys.length || keys.some((key) => parameters.includes(key))) return call(name, given[0]);
      }
      if (given.length > parameters.length) {
        throw new TypeError(`${alias}() takes one object with the arguments by name, or at most ${parameters.length} `
          + `in this order (${parameters.join(", ")}), not ${given.length}`);
      }
      return call(name, Object.fromEntries(given.map((value, at) => [parameters[at], value])));
    };
    Object.defineProperty(names[alias], "name", { value: alias });
  }
  return names;
}
