"""The catalogue for JavaScript: which globals, modules of Node and common packages of npm meet which rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .catalogue import all_of
from .rules import longest

_RULES: Final[Mapping[str, list[str]]] = {
    "process": [
        *("child_process", "cross-spawn", "execa", "node-pty", "shelljs", "zx"),
        *all_of("process", "abort execve kill reallyExit"),
        *all_of("cluster", "fork setupMaster setupPrimary"),
    ],
    "code": [
        *("eval", "Function", "vm", "isolated-vm", "vm2", "repl", "WebAssembly"),
        *all_of("module", "_compile _extensions _load prototype register registerHooks runMain"),
        *all_of("require", "extensions"),
        "worker_threads.Worker",
    ],
    "dynamic": all_of("require", "cache"),
    "introspection": ["inspector", "v8.setFlagsFromString"],
    "unpickle": ["cryo", "funcster", "node-serialize.unserialize", "serialize-to-js.deserialize"],
    "native": [
        *("bindings", "ffi-napi", "ffi-rs", "koffi", "node-gyp-build", "ref-napi"),
        *all_of("process", "_linkedBinding binding dlopen"),
    ],
}
FUNCTIONS: Final[Mapping[str, str]] = {name: rule for rule, names in _RULES.items() for name in names}
"""Functions, and modules of which every function, that meet a rule whenever they are mentioned, called or not."""

NETWORK: Final = frozenset(
    [
        *("dgram", "dns", "http", "http2", "https", "net", "tls", "undici"),
        *("EventSource", "WebSocket", "WebTransport", "XMLHttpRequest", "fetch"),
        *("axios", "got", "ioredis", "ky", "node-fetch", "nodemailer", "request", "socket.io", "socket.io-client"),
        *("ssh2", "superagent", "ws"),
    ]
)
"""Globals, and modules of which every function, that use the network when they are called."""
_HARMLESS: Final = frozenset(["METHODS", "STATUS_CODES", "getDefaultResultOrder", "isIP", "isIPv4", "isIPv6"])

HANDED_ON: Final = frozenset(
    [
        *("child_process", "cluster", "dgram", "globalThis", "inspector", "module", "net", "process", "require"),
        *("tls", "vm", "worker_threads"),
    ]
)
"""Modules and globals whose use cannot be followed once a program passes them on as values."""
ANYWHERE: Final = frozenset(["child_process"])
"""Modules that are recognized by name even as a property of an unknown object."""

LOADERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("require", "process.getBuiltinModule", "module._load", "require.resolve"), "require"),
    **dict.fromkeys(("import", "__import__"), "import"),
}
"""Functions that load a module by its name, with the subject of findings about names that are made at run time.
`__import__` is what `import(…)` is called inside the engine.
"""

_SAME: Final[Mapping[str, str]] = {
    "fs/promises": "fs.promises",
    "dns/promises": "dns",
    "inspector/promises": "inspector",
    "path/posix": "path",
    "path/win32": "path",
    "path.posix": "path",
    "path.win32": "path",
    "fs-extra": "fs",
    "graceful-fs": "fs",
    "global": "globalThis",
    "self": "globalThis",
    "window": "globalThis",
    "buffer.Buffer": "Buffer",
    "buffer.atob": "atob",
    "url.URL": "URL",
    "module.Module": "module",
    "module.require": "require",
    "module.prototype.require": "require",
    "process.mainModule": "module",
    "require.main": "module",
}


def canonical(path: str) -> str:
    """Return the one canonical name of an object that has several, such as `eval` for `globalThis.eval`."""
    if old := longest(path, _SAME):
        return canonical(_SAME[old] + path[len(old) :])
    if path.startswith("globalThis."):
        return canonical(path.removeprefix("globalThis."))
    return path


def rule_of(path: str) -> str | None:
    """Return the rule that an object meets by being mentioned; `None` if there is none."""
    found = longest(path, FUNCTIONS)
    return None if found == path and found in HANDED_ON else FUNCTIONS.get(found)


def rule_of_call(path: str) -> str | None:
    """Return the rule that a function meets by being called; `None` if there is none."""
    if path.rpartition(".")[2] in _HARMLESS:
        return None
    return FUNCTIONS.get(longest(path, FUNCTIONS)) or ("network" if longest(path, NETWORK) else None)


FILES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        all_of(
            "fs", "createReadStream glob opendir openAsBlob read readFile readJson readdir readlink watch watchFile"
        ),
        "reads",
    ),
    **dict.fromkeys(all_of("process", "chdir loadEnvFile"), "reads"),
    **dict.fromkeys(
        [
            *all_of("fs", "appendFile chmod chown copy copyFile cp createWriteStream lchmod lchown link lutimes mkdir"),
            *all_of("fs", "mkdirp mkdirs mkdtemp move outputFile outputJson rename symlink truncate unlink utimes"),
            *all_of("fs", "ensureDir ensureFile ensureLink writeFile writeJson"),
        ],
        "writes",
    ),
    **dict.fromkeys(["fs.rm", "fs.rmdir", "fs.remove", "fs.emptyDir", "rimraf", "del"], "removes"),
    "fs.open": "opens",
}
"""Functions of which arguments are paths that they read, write or remove; `opens`: the flags decide."""

COPIES: Final = frozenset(all_of("fs", "copy copyFile cp"))
"""Functions that write, and only read their first argument."""
TWO_PATHS: Final = COPIES | frozenset(all_of("fs", "ensureLink link move rename symlink"))

SAME_VALUE: Final = frozenset(
    [
        *all_of("Object", "freeze getPrototypeOf seal"),
        *("util.promisify", "String", "structuredClone", "url.fileURLToPath", "url.pathToFileURL", "Promise.resolve"),
    ]
)
"""Functions whose result stands for their first argument."""
PATHS: Final = frozenset(all_of("path", "join normalize resolve"))
LOOKS: Final = ("console.", "Object.keys", "Array.isArray", "JSON.stringify", "util.inspect", "String")
"""Beginnings of functions that only inspect their arguments."""


def file_function(path: str) -> str:
    """Return the name of a function for files without the form of its result: `fs.rm` for `fs.promises.rm`."""
    return path.replace("fs.promises.", "fs.", 1).removesuffix("Sync")
