// How a program is run: as V8 runs what is typed at a console, in the one context that there is.
"use strict";

const { Session } = require("node:inspector");
const { promiseHooks } = require("node:v8");
const { createRequire } = require("node:module");
const { Script, constants } = require("node:vm");
const { pathToFileURL } = require("node:url");
const { describe, describeSyntax, isRaisedIn } = require("./failure.js");
const { withoutModuleSyntax } = require("./source.js");

const IMPORTER = "__import__";
const RECEIVER = "__receive__";
const PRIMITIVES = { NaN, Infinity, "-Infinity": -Infinity, "-0": -0 };

// Evaluates programs, one after the other. `folder` is where their files lie.
class Evaluator {
  #session = new Session();
  #running = new Set();

  constructor(folder) {
    this.#session.connect();
    this.folder = folder;
  }

  // Set what `require` and `import` mean to a program, and what it takes itself for.
  prepare(name) {
    const path = `${this.folder}/${name}`;
    const require = createRequire(path);
    const module = { id: ".", path: this.folder, filename: path, exports: {}, loaded: false, children: [], paths: [] };
    module.require = require;
    require.main = module;
    process.argv = [process.execPath, path];
    const { exports } = module;
    define({ require, module, exports, __filename: path, __dirname: this.folder, [IMPORTER]: importer(path, require) });
  }

  // Run a program; return {value} or {error}, the latter as a result has it.
  async run(program) {
    let source;
    try {
      source = program.language === "typescript" ? stripTypes(program.code) : program.code;
    } catch (error) {
      return { error: describeTypes(error, program) };
    }
    const expression = `${withoutModuleSyntax(source, IMPORTER)}\n//# sourceURL=${program.name}`;
    const { result, exceptionDetails } = await this.#evaluate(expression);
    if (exceptionDetails === undefined) {
      const asError = (reason) => ({ error: describe(reason, program) });
      return this.#valueOf(result).then((value) => ({ value }), asError);
    }
    const thrown = await this.#valueOf(exceptionDetails.exception).catch((reason) => reason);
    const { scriptId, lineNumber, columnNumber } = exceptionDetails;
    const neverRan = scriptId !== undefined && thrown instanceof SyntaxError && !isRaisedIn(thrown, program);
    if (!neverRan) return { error: describe(thrown, program) };
    return { error: describeSyntax(thrown.message, lineNumber + 1, columnNumber + 1, program) };
  }

  // Let go of a program that still awaits something.
  close() {
    this.#session.disconnect();
  }

  async #evaluate(expression) {
    let ofProgram;
    const answer = this.#post("Runtime.evaluate", { expression, replMode: true }, (promise) => (ofProgram ??= promise));
    // The inspector tells of a promise that is collected while it waits for it, which V8 does not survive. So the
    // program's own, the first that evaluating it makes, is kept until it is settled.
    this.#running.add(ofProgram);
    try {
      return await answer;
    } finally {
      this.#running.delete(ofProgram);
    }
  }

  #post(method, parameters, onPromise = () => {}) {
    return new Promise((resolve, reject) => {
      const stop = promiseHooks.onInit(onPromise);
      this.#session.post(method, parameters, (error, answer) => (error ? reject(error) : resolve(answer)));
      stop();
    });
  }

  // Return the value itself that the inspector tells of. What a promise is rejected with is thrown.
  async #valueOf({ type, value, unserializableValue, objectId }) {
    if (objectId === undefined) {
      if (unserializableValue === undefined) return value;
      return type === "bigint" ? BigInt(unserializableValue.slice(0, -1)) : PRIMITIVES[unserializableValue];
    }
    let received;
    define({ [RECEIVER]: (given) => (received = { given }) });
    await this.#post("Runtime.callFunctionOn", {
      objectId,
      functionDeclaration: `function () { "use strict"; ${RECEIVER}(this); }`,
      returnByValue: true,
    });
    delete globalThis[RECEIVER];
    await this.#post("Runtime.releaseObject", { objectId });
    return received.given;
  }
}

// Define global names that no loop over `globalThis` shows.
function define(names) {
  for (const [name, value] of Object.entries(names)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

// Return a function that imports as the file at `path` would, and refuses names that the module does not have.
function importer(path, require) {
  const load = loader(path, require);

  async function load_names(specifier, options, names = []) {
    const where = {};
    Error.captureStackTrace(where, load_names);
    let loaded;
    try {
      loaded = await load(specifier, options);
    } catch (error) {
      // Node knows of no line that imports; what a module itself threw says where already.
      if (/^ERR_/.test(error?.code)) error.stack += String(where.stack).replace(/^[^\n]*/, "");
      throw error;
    }
    const lacking = names.find((name) => !(name in loaded));
    if (lacking === undefined) return loaded;
    const error = new SyntaxError(`The requested module '${specifier}' does not provide an export named '${lacking}'`);
    error.stack = `${error}${String(where.stack).replace(/^[^\n]*/, "")}`;
    throw error;
  }

  const url = pathToFileURL(path).href;
  load_names.meta = Object.assign(Object.create(null), {
    url,
    filename: path,
    dirname: path.slice(0, path.lastIndexOf("/")),
    main: true,
    resolve: (specifier) => resolved(specifier, url, require),
  });
  return load_names;
}

function loader(path, require) {
  if (constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER !== undefined) {
    const source = "(specifier, options) => options === undefined ? import(specifier) : import(specifier, options)";
    return new Script(source, {
      filename: path,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
    }).runInThisContext();
  }
  const url = pathToFileURL(path).href; // before Node 20.10
  return (specifier) => import(resolved(specifier, url, require));
}

function resolved(specifier, url, require) {
  if (/^\.{0,2}\//.test(specifier)) return new URL(specifier, url).href;
  if (/^[a-z]+:/i.test(specifier)) return specifier;
  const found = require.resolve(specifier);
  return found.startsWith("/") ? pathToFileURL(found).href : `node:${found.replace(/^node:/, "")}`;
}

function stripTypes(code) {
  return require("node:module").stripTypeScriptTypes(code);
}

function describeTypes(error, program) {
  const [, place] = /^:(\d+)\n/.exec(error.stack ?? "") ?? [];
  const message = String(error.message).trim();
  const hint =
    error.code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX"
      ? "types are stripped and nothing else: no enum, no namespace, no parameter properties; use plain JavaScript for it"
      : "";
  return describeSyntax(message, Number(place ?? 1), 0, program, hint);
}

module.exports = { Evaluator, define };
