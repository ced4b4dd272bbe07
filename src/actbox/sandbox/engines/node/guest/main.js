// One guest in Node: it reads one message and runs one program, or begins a session; then it says what came of it.
"use strict";

const { readdirSync } = require("node:fs");
const { Console } = require("node:console");
const { Channel } = require("./channel.js");
const { Evaluator, define } = require("./evaluate.js");
const { describe } = require("./failure.js");
const { exitError, programOf, setOut, usageSince } = require("./program.js");
const { serveSession } = require("./session.js");
const { bindTools } = require("./tools.js");
const { describeValue } = require("./values.js");

const UNSETTLED = "the program awaits something that can never come: nothing is left that could settle it";

// Serve one run over the channel at this descriptor.
function main(descriptor) {
  const channel = new Channel(descriptor);
  process.execArgv = []; // else Node processes that the program starts would be guests too
  // What is printed is written before the next line runs: none of it waits in memory, or is lost at an exit.
  for (const stream of [process.stdout, process.stderr]) stream._handle.setBlocking(true);
  // Node's own tells the inspector of all that is printed, which keeps it.
  define({ console: new Console({ stdout: process.stdout, stderr: process.stderr }) });
  leaveOutWarnings();
  const message = channel.receiveFirst();
  if (message === undefined) process.reallyExit(0); // the host went away before it had a program
  const evaluator = new Evaluator(message.workspace);
  if (message.t === "session") serveSession(channel, evaluator);
  else runOne(channel, evaluator, message);
}

function runOne(channel, evaluator, message) {
  const before = process.cpuUsage();
  const program = programOf(message);
  const done = { t: "done", exit: 0 };
  let over = false;

  function fail(error) {
    over = true;
    done.error ??= error;
    process.exit(1);
  }

  process.on("uncaughtException", (error) => {
    // One of the program's own has it instead, as in any Node.
    if (process.listenerCount("uncaughtException") === 1) fail(describe(error, program));
  });
  afterExit((code, asked) => {
    const finish = { ...done };
    if (!over && !asked) {
      finish.error = { kind: "RUNTIME", message: UNSETTLED, hint: "settle each promise that is awaited" };
    }
    finish.exit = finish.error ? finish.exit || 1 : code & 0xff;
    if (finish.exit) finish.error ??= exitError(finish.exit);
    finish.alone = isAlone();
    Object.assign(finish, usageSince(before));
    channel.sendDone(finish);
    evaluator.close();
    process.reallyExit(finish.exit);
  });

  const refused = setOut(message, evaluator);
  if (refused !== undefined) {
    Object.assign(done, refused);
    process.exit(1);
  }
  evaluator.prepare(program.name);
  define(message.inputs);
  define(bindTools(message.tools, channel, program.name));
  evaluator.run(program).then(({ value, error }) => {
    if (error !== undefined) fail(error);
    over = true;
    if (value !== undefined) Object.assign(done, describeValue(value, channel.maxBytes / 4));
  });
}

// Have `last` called when the program, and all that it does at its exit, is over: with the exit code, and whether the
// program has asked for its end.
function afterExit(last) {
  const { emit } = process;
  let asked = false;
  const exit = process.exit;
  process.exit = (...given) => {
    asked = true;
    exit.apply(process, given);
  };
  process.emit = function (name, ...given) {
    const answer = emit.call(this, name, ...given);
    if (name === "exit") last(process.exitCode ?? given[0] ?? 0, asked);
    return answer;
  };
}

// Whether it is certain that no other process is left which could outlive the end of this one.
function isAlone() {
  const own = String(process.pid);
  try {
    return readdirSync("/proc").every((name) => !/^\d+$/.test(name) || name === "1" || name === own);
  } catch {
    return false; // such as for want of descriptors
  }
}

// Node calls experimental what the guest itself needs.
function leaveOutWarnings() {
  const usual = process.listeners("warning");
  process.removeAllListeners("warning");
  process.on("warning", (warning) => {
    const ours = /stripTypeScriptTypes|USE_MAIN_CONTEXT_DEFAULT_LOADER|importModuleDynamically/;
    if (warning.name === "ExperimentalWarning" && ours.test(warning.message)) return;
    for (const tell of usual) tell.call(process, warning);
  });
}

module.exports = { main };
