"""Which names of the standard library and of common packages meet which rule."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Final


def _all(module: str, names: str) -> list[str]:
    return [f"{module}.{name}" for name in names.split()]


def _table(rules: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: rule for rule, names in rules.items() for name in names}


FUNCTIONS: Final[Mapping[str, str]] = _table(
    {
        "process": [
            *_all("os", "system popen fork forkpty kill killpg abort startfile posix_spawn posix_spawnp pidfd_open"),
            *_all("os", "execl execle execlp execlpe execv execve execvp execvpe"),
            *_all("os", "spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"),
            *_all("subprocess", "run Popen call check_call check_output getoutput getstatusoutput fork_exec"),
            *_all("asyncio", "create_subprocess_exec create_subprocess_shell"),
            *_all("asyncio.subprocess", "create_subprocess_exec create_subprocess_shell"),
            *_all("pty", "spawn fork"),
            *_all("popen2", "popen2 popen3 popen4"),
            *_all("commands", "getoutput getstatusoutput"),
            *_all("multiprocessing", "Process Pool get_context Manager"),
            *_all("multiprocessing.pool", "Pool"),
            *_all("multiprocessing.context", "Process"),
            *_all("concurrent.futures", "ProcessPoolExecutor"),
            *_all("concurrent.futures.process", "ProcessPoolExecutor"),
            *_all("signal", "raise_signal pthread_kill pidfd_send_signal"),
            *_all("webbrowser", "open open_new open_new_tab get"),
            *_all("pexpect", "spawn run"),
        ],
        "code": [
            *_all("builtins", "exec eval compile breakpoint"),
            *_all("code", "interact InteractiveConsole InteractiveInterpreter compile_command"),
            *_all("codeop", "compile_command Compile CommandCompiler"),
            *_all("runpy", "run_path run_module"),
            *_all("types", "FunctionType CodeType LambdaType"),
            *_all("imp", "load_source load_module load_compiled load_dynamic"),
            *_all("importlib.util", "spec_from_file_location spec_from_loader module_from_spec"),
            *_all("importlib.machinery", "SourceFileLoader SourcelessFileLoader ExtensionFileLoader"),
            *_all("zipimport", "zipimporter"),
            *_all("timeit", "timeit repeat Timer"),
            *_all("cProfile", "run runctx"),
            *_all("profile", "run runctx"),
            *_all("pdb", "run runeval set_trace"),
            *_all("doctest", "testmod testfile"),
            *_all("pandas", "eval"),
        ],
        "dynamic": [
            *_all("builtins", "__import__"),
            *_all("importlib", "__import__ reload"),
            *_all("importlib._bootstrap", "_gcd_import"),
            *_all("pkgutil", "resolve_name get_loader find_loader"),
        ],
        "introspection": [
            *_all("sys", "_getframe _current_frames _getframemodulename settrace setprofile addaudithook"),
            *_all("inspect", "currentframe stack trace getouterframes getinnerframes"),
            *_all("gc", "get_objects get_referrers get_referents"),
        ],
        "unpickle": [
            *_all("pickle", "load loads Unpickler _load _loads _Unpickler"),
            *_all("marshal", "load loads"),
            *_all("shelve", "open Shelf DbfilenameShelf BsdDbShelf"),
            *_all("dill", "load loads load_session load_module Unpickler"),
            *_all("cloudpickle", "load loads"),
            *_all("joblib", "load"),
            *_all("jsonpickle", "decode loads"),
            *_all("pandas", "read_pickle"),
            *_all("pandas.io.pickle", "read_pickle"),
            *_all("yaml", "unsafe_load unsafe_load_all full_load full_load_all UnsafeLoader"),
            *_all("keras.models", "load_model"),
            *_all("tensorflow.keras.models", "load_model"),
        ],
        "native": [
            *_all("ctypes", "CDLL PyDLL WinDLL OleDLL cdll pydll windll oledll pythonapi LibraryLoader"),
            *_all("ctypes", "memmove memset string_at wstring_at CFUNCTYPE PYFUNCTYPE cast POINTER"),
            *_all("ctypes", "dlopen dlsym call_function call_cdeclfunction"),
            *_all("cffi", "FFI"),
            *_all("numpy.ctypeslib", "load_library"),
            *_all("torch.utils.cpp_extension", "load load_inline"),
        ],
        "network": [
            *_all("socket", "socket create_connection create_server fromfd getaddrinfo gethostbyname SocketType"),
            *_all("socket", "gethostbyname_ex gethostbyaddr getnameinfo getfqdn send_fds recv_fds"),
            *_all("asyncio", "open_connection start_server open_unix_connection start_unix_server"),
            *_all("ssl", "get_server_certificate wrap_socket"),
            *_all("anyio", "connect_tcp connect_unix create_tcp_listener create_udp_socket getaddrinfo"),
            *_all("trio", "open_tcp_stream open_tcp_listeners serve_tcp open_unix_socket"),
            *_all("http.server", "HTTPServer ThreadingHTTPServer"),
        ],
    }
)
"""Full names of functions whose very mention counts, called or not."""

CALLED: Final[Mapping[str, str]] = {
    "yaml.load": "unpickle",
    "yaml.load_all": "unpickle",
    "torch.load": "unpickle",
    "numpy.load": "unpickle",
    "shutil.rmtree": "delete-tree",
}
"""Functions that count by what they are called with."""

NETWORK_MODULES: Final = (
    *("requests", "httpx", "aiohttp", "urllib3", "httplib2", "pycurl", "websockets", "websocket", "paramiko"),
    *("urllib.request", "http.client", "ftplib", "smtplib", "smtpd", "poplib", "imaplib", "nntplib", "telnetlib"),
    *("xmlrpc.client", "xmlrpc.server", "socketserver", "boto3", "botocore", "grpc", "dns"),
)
"""Modules whose functions and classes all count as use of the network when they are called."""

READS: Final = frozenset(
    [
        *_all("os", "listdir scandir walk fwalk readlink chdir"),
        *_all("glob", "glob iglob"),
        *_all("linecache", "getline getlines"),
        *_all("fileinput", "input FileInput"),
        *_all("numpy", "loadtxt genfromtxt fromfile"),
        *_all("pandas", "read_csv read_table read_json read_parquet read_excel"),
        *_all("io", "open_code"),
        *_all("mmap", "mmap"),
        *_all("sqlite3", "connect"),
    ]
)
"""Functions that read whatever path they are given."""

WRITES: Final = frozenset(
    [
        *_all("os", "remove unlink rmdir removedirs rename renames replace chmod chown lchown mkdir makedirs symlink"),
        *_all("os", "link truncate mkfifo mknod chroot utime setxattr"),
        *_all("shutil", "copy copy2 copyfile copytree move chown make_archive unpack_archive"),
    ]
)
"""Functions that change whatever path they are given."""

OPENS: Final = frozenset(
    f"{module}.{name}"
    for module, name in (
        *(("builtins", "open"), ("os", "open"), ("io", "FileIO"), ("codecs", "open"), ("gzip", "open")),
        *(("bz2", "open"), ("lzma", "open"), ("zipfile", "ZipFile"), ("tarfile", "open"), ("tarfile", "TarFile")),
    )
)
"""Functions that read or write, as their mode says."""

PATH_CLASSES: Final = frozenset([*_all("pathlib", "Path PosixPath PurePath PurePosixPath"), "anyio.Path", "trio.Path"])
PATH_READS: Final = frozenset(["read_text", "read_bytes", "iterdir", "glob", "rglob", "walk", "readlink"])
PATH_WRITES: Final = frozenset(
    [
        "write_text",
        "write_bytes",
        "unlink",
        "rmdir",
        "mkdir",
        "touch",
        "rename",
        "replace",
        "chmod",
        "lchmod",
        "symlink_to",
        "hardlink_to",
    ]
)

REACHING: Final = frozenset(
    [
        "__subclasses__",
        "__bases__",
        "__base__",
        "__mro__",
        "mro",
        "__globals__",
        "__code__",
        "__closure__",
        "__builtins__",
        "__self__",
        "__getattribute__",
        "__loader__",
        "__spec__",
        "__reduce__",
        "__reduce_ex__",
        "f_globals",
        "f_locals",
        "f_builtins",
        "f_back",
        "f_code",
        "tb_frame",
        "gi_frame",
        "gi_code",
        "cr_frame",
        "cr_code",
        "ag_frame",
        "ag_code",
        "func_globals",
        "func_code",
    ]
)
"""Attributes that lead from any object into the interpreter's own."""

REACHING_NAMES: Final = frozenset(["__loader__", "__spec__"])
"""Names that every module has and that do the same."""

SENSITIVE: Final = frozenset(
    [
        "os",
        "sys",
        "subprocess",
        "builtins",
        "ctypes",
        "importlib",
        "socket",
        "pty",
        "multiprocessing",
        "pickle",
        "marshal",
        "runpy",
        "cffi",
    ]
)
"""Modules of which nobody can tell what is done with them once they are handed on as values."""

_EXPORTED: Final = SENSITIVE - {"runpy", "cffi"} | {"shutil"}

HOLDER_METHODS: Final = frozenset(
    ["get", "pop", "setdefault", "__getitem__", "update", "values", "items", "__setitem__", "copy", "clear"]
)
"""Methods of what a module's names are kept in."""

ANYWHERE: Final = frozenset(["os", "subprocess", "builtins", "__builtins__", "ctypes", "importlib"])
"""Modules that are taken for themselves also as an attribute of what is not known: `thing.os.system`."""

BUILTINS: Final = frozenset(vars(builtins))

_SAME: Final[Mapping[str, str]] = {
    "posix": "os",
    "nt": "os",
    "_posixsubprocess": "subprocess",
    "_io": "io",
    "_pyio": "io",
    "io.open": "builtins.open",
    "_pickle": "pickle",
    "cPickle": "pickle",
    "six.moves.cPickle": "pickle",
    "_socket": "socket",
    "_ctypes": "ctypes",
    "_imp": "imp",
    "__builtin__": "builtins",
    "__builtins__": "builtins",
    "posixpath": "os.path",
    "torch.serialization.load": "torch.load",
    "numpy.lib.npyio.load": "numpy.load",
    "ruamel.yaml": "yaml",
    "importlib._bootstrap.__import__": "builtins.__import__",
    "importlib.__import__": "builtins.__import__",
}


_PACKAGES: Final = frozenset(["asyncio", "pandas.io", "socket"])
"""What has a module, or a class, of such a name itself."""


def canonical(path: str) -> str:
    """Return the one name of what several modules have, such as `os.system` for `posix.system`."""
    for old, new in _SAME.items():
        if path == old or path.startswith(old + "."):
            return canonical(new + path[len(old) :])
    head, dot, last = path.rpartition(".")
    if dot and last.lstrip("_") in _EXPORTED and head not in _PACKAGES:
        return last.lstrip("_")  # a module's own import of another, such as `random._os`
    return path


def rule_of(path: str) -> str | None:
    """Return the rule that a function meets by being mentioned, whatever it is called with."""
    return FUNCTIONS.get(path)


def network_use(path: str) -> bool:
    """Return whether a name belongs to a module of the network and is no exception."""
    last = path.rpartition(".")[2]
    if last.endswith(("Error", "Exception", "Warning", "__")) or ".exceptions." in path:
        return False
    return any(path.startswith(module + ".") for module in NETWORK_MODULES)


def known(path: str) -> bool:
    """Return whether the catalogue has something to say about this very name."""
    return path in FUNCTIONS or path in CALLED or path in READS or path in WRITES or path in OPENS


_ALSO: Final = (
    *("pathlib.Path.home", "builtins.bytes.fromhex", "sys.modules", "importlib.import_module", "yaml.SafeLoader"),
    *("base64.b64decode", "base64.standard_b64decode", "base64.urlsafe_b64decode", "binascii.unhexlify"),
    *("codecs.decode", "codecs.encode", "inspect.getattr_static", "operator.attrgetter", "builtins.getattr"),
    *_all("os.path", "join expanduser abspath realpath normpath"),
)
_NAMES: Final = (*FUNCTIONS, *CALLED, *READS, *WRITES, *OPENS, *PATH_CLASSES, *SENSITIVE, *NETWORK_MODULES, *_ALSO)
_ROOTS: Final = frozenset(name.partition(".")[0] for name in _NAMES)
_FOLLOWED: Final = frozenset(
    ".".join(parts[:length]) for parts in (name.split(".") for name in _NAMES) for length in range(1, len(parts) + 1)
)


def followed(path: str) -> bool:
    """Return whether a reader needs the name of this attribute of a module: there are but finitely many such names."""
    head, _, last = path.rpartition(".")
    if path in _FOLLOWED or head in NETWORK_MODULES or (head in _ROOTS and "." not in head):
        return True
    holder = head == "sys.modules" or head.endswith(".__dict__")
    return (holder and last in HOLDER_METHODS) or (last == "__dict__" and not holder and head.count(".") < 2)
