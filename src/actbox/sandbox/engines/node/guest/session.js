// A session: many programs, one after the other, in one live context.
//
// The host's `session` message is answered once the guest is ready; then each `run` message is answered by a `done`
// with the run's number. When the host closes the channel the process ends.
"use strict";

const { define } = require("./evaluate.js");
const { describe } = require("./failure.js");
const { exitError, programOf, setOut, usageSince } = require("./program.js");
const { bindTools } = require("./tools.js");
const { describeValue } = require("./values.js");

const INTERRUPTED = { kind: "RUNTIME", type: "Interrupted", message: "the program was interrupted" };

async function serveSession(channel, evaluator) {
  const session = new LiveSession(channel, evaluator);
  let done = { t: "done", exit: 0 };
  while (done !== undefined) {
    channel.endCalls();
    channel.sendDone(done);
    const message = await channel.nextProgram();
    done = message === undefined ? undefined : await session.run(message);
  }
  process.reallyExit(0);
}

class LiveSession {
  #names = new Set();
  #numbers = new Map();
  #bound = {};
  #interrupts = 0;
  #end = () => {};

  constructor(channel, evaluator) {
    this.channel = channel;
    this.evaluator = evaluator;
    process.on("SIGINT", () => this.#interrupt());
    // What an earlier program has left running fails by itself, and takes nobody along.
    process.on("uncaughtException", (error) => {
      if (error === STOPPED) return;
      process.stderr.write(describe(error, this.program).traceback ?? `${error}\n`);
    });
    process.exit = (code = process.exitCode ?? 0) => {
      const exit = Number(code) & 0xff;
      this.#end(exit ? { exit, error: exitError(exit) } : { exit });
      throw STOPPED; // to get out of the program
    };
  }

  async run(message) {
    const before = process.cpuUsage();
    const program = programOf({ ...message, name: this.#fileName(message.name) });
    this.program = program;
    const refused = setOut(message, this.evaluator);
    if (refused !== undefined) return { t: "done", run: message.run, ...refused, ...usageSince(before) };
    this.evaluator.prepare(program.name);
    this.#bind(message, program.name);
    const ended = new Promise((resolve) => (this.#end = resolve));
    this.earlier = message.interrupts;
    this.running = true;
    const end = this.#end;
    this.evaluator.run(program).then(({ value, error }) => {
      if (error !== undefined) end({ exit: 1, error });
      else if (value === undefined) end({});
      else end(describeValue(value, this.channel.maxBytes / 4));
    });
    const outcome = await ended;
    this.running = false;
    process.exitCode = undefined;
    return { t: "done", run: message.run, exit: 0, ...outcome, ...usageSince(before) };
  }

  #interrupt() {
    this.#interrupts += 1;
    if (this.running && this.#interrupts > this.earlier) this.#end({ exit: 1, error: INTERRUPTED });
  }

  // Return a name that no program of the session has had; its number is sought from the last one that it got.
  #fileName(name) {
    const dot = name.lastIndexOf(".");
    const [stem, suffix] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
    let [number, unique] = [this.#numbers.get(name) ?? 1, name];
    while (this.#names.has(unique)) unique = `${stem}-${++number}${suffix}`;
    this.#numbers.set(name, number);
    this.#names.add(unique);
    return unique;
  }

  // Bind the tools and inputs of a program, and unbind tools of earlier ones that it was not given.
  #bind(message, programName) {
    for (const [name, value] of Object.entries(this.#bound)) {
      if (globalThis[name] === value) delete globalThis[name];
    }
    this.#bound = bindTools(message.tools, this.channel, programName);
    define(this.#bound);
    define(message.inputs);
  }
}

const STOPPED = new Error("the program has ended itself");

module.exports = { serveSession };
