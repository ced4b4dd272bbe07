// Frames of the channel, as `sandbox/guest/wire.py` has them: two lengths, JSON, blobs. Pure: values in, bytes out.
"use strict";

const { isProxy } = require("node:util").types;
const { readMessage, writeMessage } = require("./messages.js");
const { CannotCross } = require("./tagged.js");

const HEADER = 8;
// What a message may have on top of what it carries.
const ENVELOPE_BYTES = 65536;

class TooLong extends Error {}

// Return the frame of a message. Raises `CannotCross` and `TooLong`.
function encode(message, maxBytes) {
  return frame(...writeMessage(message, isProxy), maxBytes);
}

// Return the frame of text and bytes.
function frame(text, blobs, maxBytes) {
  const size = Buffer.byteLength(text);
  const carried = blobs.reduce((sum, blob) => sum + blob.length, 0);
  if (size + carried > maxBytes) {
    const [bytes, most] = [size + carried, maxBytes].map((count) => count.toLocaleString("en-US"));
    throw new TooLong(`a message of ${bytes} bytes; the limit is ${most}`);
  }
  const bytes = Buffer.allocUnsafe(HEADER + size + carried);
  bytes.writeUInt32BE(size, 0);
  bytes.writeUInt32BE(carried, 4);
  bytes.write(text, HEADER);
  let at = HEADER + size;
  for (const blob of blobs) {
    bytes.set(blob, at);
    at += blob.length;
  }
  return bytes;
}

// Return the message of a frame.
function decode(text, carried) {
  let at = 0;
  return readMessage(text, (size) => new Uint8Array(carried.buffer, carried.byteOffset + at, (at += size, size)).slice());
}

// Gathers received bytes, and gives out each message once it is complete.
class FrameReader {
  #chunks = [];
  #size = 0;

  add(bytes) {
    this.#chunks.push(bytes);
    this.#size += bytes.length;
  }

  // How many bytes have to come, at least, before `take` has anything more to return.
  get missing() {
    return Math.max((this.#size < HEADER ? HEADER : this.#length()) - this.#size, 0);
  }

  take() {
    if (this.#size < HEADER || this.#size < this.#length()) return undefined;
    const [whole] = this.#join();
    const end = HEADER + whole.readUInt32BE(0);
    const length = this.#length();
    const message = decode(whole.toString("utf8", HEADER, end), whole.subarray(end, length));
    this.#chunks = [whole.subarray(length)];
    this.#size -= length;
    return message;
  }

  #length() {
    if (this.#chunks[0].length < HEADER) this.#join();
    const [first] = this.#chunks;
    return HEADER + first.readUInt32BE(0) + first.readUInt32BE(4);
  }

  #join() {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks;
  }
}

module.exports = { CannotCross, ENVELOPE_BYTES, FrameReader, TooLong, encode, frame };
