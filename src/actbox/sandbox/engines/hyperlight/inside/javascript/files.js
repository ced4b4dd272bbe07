// Files, whole: `files.read`, `files.write` and the rest, below /workspace or by an absolute path.

function onFile(op, path, more = {}) {
  const names = [];
  for (const name of `${path.startsWith("/") ? "" : "/workspace/"}${path}`.split("/")) {
    if (name === "..") names.pop();
    else if (name && name !== ".") names.push(name);
  }
  return filed({ op, path: `/${names.join("/")}`, ...more }, path);
}

function filed(question, path) {
  const answer = ask({ t: "file", ...question });
  if (answer.errno === undefined) return answer.value;
  throw Object.assign(new Error(`${answer.errno}: ${answer.text}, '${path}'`), { code: answer.errno, path });
}

const files = {
  readBytes(path) {
    const handle = onFile("open", path, { mode: "r" });
    const pieces = [];
    let at = 0;
    for (;;) {
      const piece = filed({ op: "read", handle, at, size: 128 * 1024 }, path);
      if (!piece.length) break;
      pieces.push(piece);
      at += piece.length;
    }
    filed({ op: "close", handle }, path);
    const bytes = new Uint8Array(at);
    at = 0;
    for (const piece of pieces) { bytes.set(piece, at); at += piece.length; }
    return bytes;
  },
  read: (path) => fromUtf8(binaryOf(files.readBytes(path))),
  write(path, data) {
    const bytes = data instanceof Uint8Array ? data : bytesOf(utf8(String(data)));
    const handle = onFile("open", path, { mode: "w" });
    for (let at = 0; at < bytes.length; at += 65536) {
      filed({ op: "write", handle, at, data: bytes.slice(at, at + 65536) }, path);
    }
    filed({ op: "close", handle }, path);
  },
  list: (path = ".") => onFile("list", path).map(([name]) => name),
  makeDir: (path) => void onFile("mkdir", path),
  remove: (path) => void onFile("remove", path),
};
