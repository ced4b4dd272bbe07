// The way to the host: a function that the library lends, called with short texts; frames as in guest/wire.py.

const PIECE = 8 * 1024; // the library's buffer for one call has 16 KiB
const dispatch = globalThis.call_tool;
const state = { lastCall: 0, maxBytes: 2 ** 20 };

class TooLong extends Error {}

const utf8 = (text) => unescape(encodeURIComponent(text.toWellFormed()));
const fromUtf8 = (binary) => decodeURIComponent(escape(binary));
const length32 = (n) => String.fromCharCode(n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255);
const read32 = (s, at) => ((s.charCodeAt(at) << 24) | (s.charCodeAt(at + 1) << 16) | (s.charCodeAt(at + 2) << 8)
  | s.charCodeAt(at + 3)) >>> 0;

function binaryOf(bytes) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += 4096) pieces.push(String.fromCharCode(...bytes.subarray(at, at + 4096)));
  return pieces.join("");
}

function bytesOf(binary) {
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

function encode(message) {
  const [json, blobs] = shared.writeMessage(message);
  const text = utf8(json);
  const blob = blobs.map(binaryOf).join("");
  if (text.length + blob.length > state.maxBytes) {
    throw new TooLong(`a message of ${text.length + blob.length} bytes; the limit is ${state.maxBytes}`);
  }
  return length32(text.length) + length32(blob.length) + text + blob;
}

function decode(frame) {
  let at = 8 + read32(frame, 0);
  return shared.readMessage(fromUtf8(frame.slice(8, at)), (size) => bytesOf(frame.slice(at, (at += size))));
}

function answerOf(first) {
  let answer = atob(first.piece);
  while (answer.length < first.size) answer += atob(dispatch("actbox", { p: answer.length }).piece);
  return decode(answer);
}

function ask(message) {
  const frame = encode(message);
  let at = 0;
  for (; frame.length - at > PIECE; at += PIECE) dispatch("actbox", { m: btoa(frame.slice(at, at + PIECE)) });
  return answerOf(dispatch("actbox", { q: btoa(frame.slice(at)) }));
}

function say(stream, text) {
  const data = utf8(text);
  for (let at = 0; at < data.length; at += PIECE) dispatch("actbox", { [stream]: btoa(data.slice(at, at + PIECE)) });
}
