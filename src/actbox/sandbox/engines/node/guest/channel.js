// The guest's end of the channel: what is sent is sent to its end at once, what comes is handed to whoever waits.
"use strict";

const fs = require("node:fs");
const { CannotCross, ENVELOPE_BYTES, FrameReader, TooLong, encode } = require("./wire.js");
const { ToolError } = require("./tool_error.js");

const { readSync, writeSync } = fs;
const READ_BYTES = 256 * 1024;
const WAIT_MS = 1;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

class Channel {
  maxBytes = 0;
  #fd;
  #reader = new FrameReader();
  #calls = new Map();
  #lastId = 0;
  #socket = null;
  #closed = false;
  #answering = true;
  #programs = [];
  #wake = () => {};
  #stays = false;

  constructor(fd) {
    this.#fd = fd;
  }

  // Wait for a message, with nothing else going on; `undefined` where the host has gone.
  receiveFirst() {
    let message;
    while ((message = this.#reader.take()) === undefined) {
      const bytes = Buffer.allocUnsafe(Math.min(this.#reader.missing, READ_BYTES));
      const count = readSync(this.#fd, bytes);
      if (count === 0) return undefined;
      this.#reader.add(bytes.subarray(0, count));
    }
    this.maxBytes = message.message_bytes;
    return message;
  }

  // Call a tool; `where` is an object whose stack says where the program does so. Rejects with `ToolError`.
  async call(tool, args, line, where) {
    if (!this.#answering) throw new ToolError("tools answer only while a program of the session runs", tool, where);
    const id = ++this.#lastId;
    const message = { t: "call", id, tool, args };
    if (line !== undefined) message.line = line;
    let bytes;
    try {
      bytes = encode(message, this.maxBytes);
    } catch (error) {
      if (error instanceof TooLong) throw new ToolError(`the arguments are too large: ${error.message}`, tool, where);
      if (!(error instanceof CannotCross)) throw error; // of a getter or a toJSON of the program's own
      throw new ToolError(error.within("the call was not made: arguments"), tool, where);
    }
    const answer = new Promise((resolve) => this.#calls.set(id, { tool, resolve }));
    this.#listen();
    this.#socket.ref();
    this.send(bytes);
    const { value, error, ...more } = await answer;
    if (error !== undefined) throw new ToolError(String(error), tool, where, more);
    return value;
  }

  // Send a frame to its end: half of one would make nonsense of all that follow.
  send(bytes) {
    let left = bytes;
    while (left.length && !this.#closed) {
      try {
        left = left.subarray(writeSync(this.#fd, left));
      } catch (error) {
        if (error.code !== "EAGAIN") return this.#close();
        // The host may be waiting to send to us: whoever waits to send must also read, or both would wait for ever.
        this.#readWhatIsThere();
        Atomics.wait(sleeper, 0, 0, WAIT_MS);
      }
    }
  }

  // Send the result of a program, smaller if it must be.
  sendDone(done) {
    try {
      this.send(encode(done, this.maxBytes));
    } catch (error) {
      if (!(error instanceof TooLong || error instanceof CannotCross)) throw error;
      const short = (text) => (typeof text === "string" && text.length > 2000 ? `${text.slice(0, 2000)} …` : text);
      const { value, ...rest } = done;
      if (value !== undefined) rest.lost = "value: the result has no room for it; give large data as text or bytes";
      if (rest.text !== undefined) rest.text = short(rest.text);
      if (rest.error) {
        rest.error = { ...rest.error, message: short(rest.error.message), traceback: short(rest.error.traceback) };
      }
      this.send(encode(rest, this.maxBytes + ENVELOPE_BYTES));
    }
  }

  // Answer no more tool calls until the next program of a session: those that wait fail now.
  endCalls() {
    this.#answering = false;
    this.#failCalls("tools answer only while a program of the session runs");
  }

  // Wait for what a session is to run next, while its timers go on; `undefined` where there is nothing more.
  async nextProgram() {
    this.#stays = true; // from now on it is the channel that keeps the process alive
    this.#listen();
    this.#socket.ref();
    while (!this.#programs.length && !this.#closed) await new Promise((resolve) => (this.#wake = resolve));
    if (!this.#programs.length) return undefined;
    this.#lastId = 0;
    this.#answering = true;
    return this.#programs.shift();
  }

  #listen() {
    if (this.#socket !== null) return;
    const { Socket } = require("node:net");
    this.#socket = new Socket({ fd: this.#fd, readable: true, writable: true });
    this.#socket.on("data", (bytes) => this.#takeIn(bytes));
    this.#socket.on("error", () => this.#close());
    this.#socket.on("close", () => this.#close());
  }

  #readWhatIsThere() {
    const bytes = Buffer.allocUnsafe(READ_BYTES);
    try {
      const count = readSync(this.#fd, bytes);
      if (count) this.#takeIn(bytes.subarray(0, count));
      else this.#close();
    } catch (error) {
      if (error.code !== "EAGAIN") this.#close();
    }
  }

  #takeIn(bytes) {
    this.#reader.add(bytes);
    let message;
    while ((message = this.#reader.take()) !== undefined) {
      if (message.t === "run") {
        this.#programs.push(message);
        this.#wake();
        continue;
      }
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      call?.resolve(message);
    }
    if (!this.#calls.size && !this.#stays) this.#socket?.unref();
  }

  #close() {
    this.#closed = true;
    this.#failCalls("the connection to the host is closed");
    this.#socket?.unref();
    this.#wake();
  }

  #failCalls(error) {
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.resolve({ error });
  }
}

module.exports = { Channel };
