"""The catalogue: which functions, modules and methods of the standard library and common packages meet which rule."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from .rules import longest


def all_of(module: str, names: str) -> list[str]:
    """Return the full names of members of a module, from their names separated by spaces."""
    return [f"{module}.{name}" for name in names.split()]


def _table(rules: Mapping[str, list[str]]) -> dict[str, str]:
    return {name: rule for rule, names in rules.items() for name in names}


FUNCTIONS: Final[Mapping[str, str]] = _table(
    {
        "process": [
            *all_of("os", "system popen fork forkpty kill killpg abort startfile posix_spawn posix_spawnp pidfd_open"),
            *all_of("os", "execl execle execlp execlpe execv execve execvp execvpe"),
            *all_of("os", "spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"),
            *all_of("subprocess", "run Popen call check_call check_output getoutput getstatusoutput fork_exec"),
            *all_of("asyncio", "create_subprocess_exec create_subprocess_shell"),
            *all_of("asyncio.subprocess", "create_subprocess_exec create_subprocess_shell"),
            *all_of("pty", "spawn fork"),
            *all_of("popen2", "popen2 popen3 popen4"),
            *all_of("commands", "getoutput getstatusoutput"),
            *all_of("multiprocessing", "Process Pool get_context Manager"),
            *all_of("multiprocessing.pool", "Pool"),
            *all_of("multiprocessing.context", "Process"),
            *all_of("concurrent.futures", "ProcessPoolExecutor"),
            *all_of("concurrent.futures.process", "ProcessPoolExecutor"),
            *all_of("signal", "raise_signal pthread_kill pidfd_send_signal"),
            *all_of("os", "unshare setns"),
            *all_of("http.server", "CGIHTTPRequestHandler"),
            *all_of("imaplib", "IMAP4_stream"),
            *all_of("pydoc", "pager pipepager tempfilepager getpager pipe_pager tempfile_pager get_pager"),
            *all_of("platform", "popen _syscmd_file _syscmd_ver"),
            *all_of("_thread", "interrupt_main"),
            *all_of("faulthandler", "_sigsegv _sigabrt _sigfpe _stack_overflow _fatal_error_c_thread _read_null"),
            *all_of("pexpect", "spawn run"),
        ],
        "code": [
            *all_of("builtins", "exec eval compile breakpoint"),
            *all_of("code", "interact InteractiveConsole InteractiveInterpreter compile_command"),
            *all_of("codeop", "compile_command Compile CommandCompiler"),
            *all_of("runpy", "run_path run_module"),
            *all_of("types", "FunctionType CodeType LambdaType"),
            *all_of("imp", "load_source load_module load_compiled load_dynamic"),
            *all_of("importlib.util", "spec_from_file_location spec_from_loader module_from_spec"),
            *all_of("importlib.machinery", "SourceFileLoader SourcelessFileLoader ExtensionFileLoader"),
            *all_of("zipimport", "zipimporter"),
            *all_of("timeit", "timeit repeat Timer main"),
            *all_of("cProfile", "run runctx main"),
            *all_of("profile", "run runctx main"),
            *all_of("cProfile.Profile()", "run runctx"),
            *all_of("profile.Profile()", "run runctx"),
            *all_of("bdb", "Bdb"),
            *all_of("pdb", "run runeval runctx runcall set_trace Pdb main post_mortem pm"),
            *all_of("trace", "Trace main"),
            *all_of("doctest", "testmod testfile run_docstring_examples debug debug_src debug_script"),
            *all_of("doctest", "DocTestRunner DebugRunner DocTestSuite DocFileSuite"),
            *all_of("rlcompleter", "Completer"),
            *all_of("modulefinder", "ModuleFinder"),
            *all_of("site", "addsitedir addpackage addsitepackages addusersitepackages main"),
            *all_of("sys", "breakpointhook __breakpointhook__"),
            *all_of("logging.config", "listen"),
            *all_of("concurrent.futures", "InterpreterPoolExecutor"),
            *all_of("pandas", "eval"),
            *all_of("pandas.core.computation.eval", "eval"),
            *all_of("numexpr", "evaluate re_evaluate"),
            *all_of("numpy.testing", "runstring rundocs"),
        ],
        "dynamic": [
            *all_of("builtins", "__import__"),
            *all_of("importlib", "__import__ reload"),
            *all_of("importlib.util", "LazyLoader"),
            *all_of("importlib.metadata", "EntryPoint entry_points"),
            *all_of("pkgutil", "resolve_name get_loader find_loader get_importer iter_importers"),
            *all_of("pydoc", "locate resolve safeimport"),
            *all_of("logging.config", "_resolve _import dictConfig fileConfig dictConfigClass DictConfigurator"),
            *all_of("logging.config", "BaseConfigurator"),
            *all_of("unittest.mock", "_importer _get_target patch"),
            *all_of("typing", "get_type_hints ForwardRef evaluate_forward_ref _eval_type"),
            *all_of("typing_extensions", "get_type_hints evaluate_forward_ref"),
            *all_of("annotationlib", "call_evaluate_function call_annotate_function ForwardRef"),
        ],
        "introspection": [
            *all_of("sys", "_getframe _current_frames _getframemodulename settrace setprofile addaudithook"),
            *all_of("inspect", "currentframe stack trace getouterframes getinnerframes"),
            *all_of("gc", "get_objects get_referrers get_referents"),
        ],
        "unpickle": [
            *all_of("pickle", "load loads Unpickler _load _loads _Unpickler"),
            *all_of("marshal", "load loads"),
            *all_of("shelve", "open Shelf DbfilenameShelf BsdDbShelf"),
            *all_of("dill", "load loads load_session load_module Unpickler"),
            *all_of("cloudpickle", "load loads"),
            *all_of("joblib", "load"),
            *all_of("jsonpickle", "decode loads"),
            *all_of("pandas", "read_pickle"),
            *all_of("pandas.io.pickle", "read_pickle"),
            *all_of("yaml", "unsafe_load unsafe_load_all full_load full_load_all UnsafeLoader"),
            *all_of("multiprocessing.reduction", "ForkingPickler loads"),
            *all_of("keras.models", "load_model"),
            *all_of("tensorflow.keras.models", "load_model"),
        ],
        "native": [
            *all_of("ctypes", "CDLL PyDLL WinDLL OleDLL cdll pydll windll oledll pythonapi LibraryLoader"),
            *all_of("ctypes", "memmove memset string_at wstring_at CFUNCTYPE PYFUNCTYPE cast POINTER"),
            *all_of("ctypes", "dlopen dlsym call_function call_cdeclfunction"),
            *all_of("ctypes.util", "find_library"),
            *all_of("cffi", "FFI"),
            *all_of("numpy.ctypeslib", "load_library"),
            *all_of("torch.utils.cpp_extension", "load load_inline"),
        ],
        "network": [
            *all_of("socket", "socket create_connection create_server fromfd getaddrinfo gethostbyname SocketType"),
            *all_of("socket", "gethostbyname_ex gethostbyaddr getnameinfo getfqdn send_fds recv_fds"),
            *all_of("asyncio", "open_connection start_server open_unix_connection start_unix_server"),
            *all_of("ssl", "get_server_certificate wrap_socket"),
            *all_of("anyio", "connect_tcp connect_unix create_tcp_listener create_udp_socket getaddrinfo"),
            *all_of("trio", "open_tcp_stream open_tcp_listeners serve_tcp open_unix_socket"),
            *all_of("http.server", "HTTPServer ThreadingHTTPServer test"),
            *all_of("logging.handlers", "SocketHandler DatagramHandler SysLogHandler SMTPHandler HTTPHandler"),
        ],
    }
)
"""Full names of functions that meet a rule whenever they are mentioned, called or not. `Profile().run` is a method of a
`Profile` object.
"""


class DecidingArgument(NamedTuple):
    """The argument that decides whether a call meets a rule, with its harmless values. Harmless values are constants
    (`None` for an omitted argument) or full names.
    """

    rule: str
    name: str = ""
    position: int = 0
    harmless: Sequence[object] = ()


CALLED: Final[Mapping[str, DecidingArgument]] = {
    **dict.fromkeys(
        all_of("yaml", "load load_all"),
        DecidingArgument("unpickle", "Loader", 1, all_of("yaml", "SafeLoader CSafeLoader BaseLoader CBaseLoader")),
    ),
    "torch.load": DecidingArgument("unpickle", "weights_only", 3, (True,)),
    "numpy.load": DecidingArgument("unpickle", "allow_pickle", 2, (False, None)),
    "numpy.lib.format.read_array": DecidingArgument("unpickle", "allow_pickle", 1, (False, None)),
    "annotationlib.get_annotations": DecidingArgument("dynamic", "eval_str", 1, (False, None)),
    **dict.fromkeys(
        all_of("inspect", "get_annotations signature"), DecidingArgument("dynamic", "eval_str", 1, (False, None))
    ),
    **dict.fromkeys(
        all_of("unittest", "main TestProgram"), DecidingArgument("dynamic", "module", 0, ("__main__", None))
    ),
}
"""Functions that meet a rule only when they are called with certain arguments."""

NETWORK_MODULES: Final = frozenset(
    [
        *("requests", "httpx", "aiohttp", "urllib3", "httplib2", "pycurl", "websockets", "websocket", "paramiko"),
        *("urllib.request", "http.client", "ftplib", "smtplib", "smtpd", "poplib", "imaplib", "nntplib", "telnetlib"),
        *("xmlrpc.client", "xmlrpc.server", "socketserver", "urllib.robotparser", "boto3", "botocore", "grpc", "dns"),
        *("wsgiref.simple_server", "multiprocessing.connection"),
    ]
)
"""Modules whose functions and classes all count as use of the network when they are called."""

MODULES: Final[Mapping[str, str]] = _table(
    {
        "process": [
            *("distutils", "ensurepip", "numpy.distutils", "numpy.f2py", "pip", "setuptools", "venv", "webbrowser"),
            *all_of("multiprocessing", "context forkserver managers pool popen_fork popen_forkserver"),
            *all_of("multiprocessing", "popen_spawn_posix process resource_tracker spawn util"),
            *all_of("test.support", "script_helper"),
        ],
        "code": [
            *("_interpreters", "_testcapi", "_testinternalcapi", "_xxsubinterpreters", "idlelib", "test.support"),
            *all_of("concurrent", "futures.interpreter interpreters"),
        ],
        "dynamic": [
            *("_frozen_importlib", "_frozen_importlib_external"),
            *all_of("importlib", "_bootstrap _bootstrap_external machinery"),
        ],
        "introspection": all_of("sys", "monitoring"),
    }
)
"""Modules of which every function and class meets a rule, unless `FUNCTIONS` has another rule for it."""

ACTING_IMPORTS: Final[Mapping[str, str]] = {
    "antigravity": "process",
    "asyncio.__main__": "code",
    "idlelib.idle": "code",
}
"""Modules that act at once when they are imported."""

FILES: Final[Mapping[str, str]] = _table(
    {
        "reads": [
            *all_of("os", "listdir scandir walk fwalk readlink chdir"),
            *all_of("glob", "glob iglob"),
            *all_of("linecache", "getline getlines"),
            *all_of("fileinput", "input FileInput"),
            *all_of("numpy", "load loadtxt genfromtxt fromfile fromregex memmap DataSource"),
            *all_of("numpy.lib.npyio", "DataSource"),
            *all_of("pandas", "read_csv read_table read_json read_parquet read_excel read_html read_xml read_feather"),
            *all_of("pandas", "read_orc read_stata read_sas read_spss read_hdf read_fwf read_pickle"),
            *all_of(
                "polars", "read_csv read_json read_ndjson read_parquet read_excel scan_csv scan_parquet scan_ndjson"
            ),
            *all_of("io", "open_code"),
            *all_of("mmap", "mmap"),
            *all_of("sqlite3", "connect Connection"),
            *all_of("tokenize", "open"),
            *all_of("netrc", "netrc"),
            *all_of("filecmp", "cmp cmpfiles dircmp"),
            *all_of("zipfile", "Path"),
            *all_of("xml.sax", "parse"),
            *all_of("xml.sax.saxutils", "prepare_input_source"),
            *all_of("xml.dom.minidom", "parse"),
            *all_of("xml.dom.pulldom", "parse"),
            *all_of("xml.etree.ElementTree", "parse iterparse ElementTree"),
            *all_of("configparser.ConfigParser()", "read"),
            *all_of("configparser.RawConfigParser()", "read"),
            *all_of("numpy.DataSource()", "open"),
            *all_of("tarfile.open()", "add"),
            *all_of("zipfile.ZipFile()", "write"),
            *all_of("readline", "read_history_file read_init_file"),
        ],
        "writes": [
            *all_of(
                "os", "remove unlink rmdir removedirs rename renames replace chmod chown lchown mkdir makedirs symlink"
            ),
            *all_of("os", "link truncate mkfifo mknod chroot utime setxattr"),
            *all_of(
                "tempfile", "NamedTemporaryFile TemporaryFile SpooledTemporaryFile TemporaryDirectory mkstemp mkdtemp"
            ),
            *all_of("logging", "FileHandler basicConfig"),
            *all_of("logging.handlers", "RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler"),
            *all_of("numpy", "save savez savez_compressed savetxt"),
            *all_of("numpy.lib.format", "open_memmap"),
            *all_of("xml.etree.ElementTree.ElementTree()", "write"),
            *all_of("xml.etree.ElementTree.parse()", "write"),
            *all_of("argparse", "FileType()"),
            *all_of("py_compile", "compile"),
            *all_of("compileall", "compile_dir compile_file"),
            *all_of("readline", "write_history_file append_history_file"),
            *all_of("shutil", "copy copy2 copyfile copymode copystat copytree move chown make_archive unpack_archive"),
        ],
        "removes": [*all_of("shutil", "rmtree")],
        "opens": [
            *all_of("builtins", "open"),
            *all_of("os", "open"),
            *all_of("io", "FileIO"),
            *all_of("codecs", "open"),
            *all_of("gzip", "open GzipFile"),
            *all_of("bz2", "open BZ2File"),
            *all_of("lzma", "open LZMAFile"),
            *all_of("zipfile", "ZipFile PyZipFile"),
            *all_of("tarfile", "open TarFile TarFile.open"),
            *all_of("wave", "open"),
            *all_of("aifc", "open"),
            *all_of("sunau", "open"),
            *all_of("dbm", "open dumb.open gnu.open ndbm.open sqlite3.open"),
        ],
    }
)
"""Functions that read, write or remove the paths that they are given, except those in `SOURCES`; "opens": the mode
decides.
"""

SOURCES: Final[Mapping[str, tuple[int | str, ...]]] = {
    **dict.fromkeys(all_of("shutil", "copy copy2 copyfile copymode copystat copytree"), (0, "src")),
    "shutil.make_archive": (2, "root_dir", 3, "base_dir"),
    "shutil.unpack_archive": (0, "filename"),
}
"""Functions that write, with the positions and names of arguments that they only read."""

PATH_CLASSES: Final = frozenset(
    [*all_of("pathlib", "Path PosixPath PurePath PurePosixPath"), "anyio.Path", "trio.Path"]
)
PATH_METHODS: Final[Mapping[str, str]] = _table(
    {
        "reads": ["read_text", "read_bytes", "iterdir", "glob", "rglob", "walk", "readlink"],
        "writes": [
            *("write_text", "write_bytes", "unlink", "rmdir", "mkdir", "touch", "rename", "replace"),
            *("chmod", "lchmod", "symlink_to", "hardlink_to"),
        ],
        "opens": ["open"],
    }
)
"""Methods of `pathlib.Path`, as in `FILES`."""

METHOD_WRITES: Final = frozenset(
    [
        *("to_csv", "to_excel", "to_feather", "to_hdf", "to_html", "to_json", "to_latex", "to_markdown"),
        *("to_orc", "to_parquet", "to_pickle", "to_stata", "to_string", "to_xml", "write_csv", "write_excel"),
        *("write_json", "write_parquet", "savefig", "tofile", "extractall"),
    ]
)
"""Methods of data frames, arrays, figures and archives that write to a path, or to an address."""

NAMES: Final[Mapping[str, str]] = _table(
    {
        "process": ["subprocess_exec", "subprocess_shell"],
        "network": [
            *("connect_accepted_socket", "create_connection", "create_datagram_endpoint", "create_server"),
            *("create_unix_connection", "create_unix_server", "getaddrinfo", "getnameinfo"),
            *("sock_connect", "sock_sendto"),
        ],
        "native": ["enable_load_extension", "load_extension"],
        "code": [
            *("exec_module", "load_module", "run_cell", "run_cell_magic", "run_line_magic", "runcode", "runsource"),
        ],
        "dynamic": ["loadTestsFromName", "loadTestsFromNames"],
        "introspection": [
            *("__subclasses__", "__bases__", "__base__", "__mro__", "mro", "__globals__", "__code__"),
            *("__closure__", "__builtins__", "__self__", "__getattribute__", "__loader__", "__spec__"),
            *("__reduce__", "__reduce_ex__", "f_globals", "f_locals", "f_builtins", "f_back", "f_code", "tb_frame"),
            *("gi_frame", "gi_code", "cr_frame", "cr_code", "ag_frame", "ag_code", "func_globals", "func_code"),
        ],
    }
)
"""Attributes and methods that meet a rule whatever object has them.

They are methods of event loops, database connections, loaders and interpreters, and (`introspection`) what leads from
any object into the interpreter's own.
"""

SENSITIVE: Final = frozenset(
    [
        *("os", "sys", "subprocess", "builtins", "ctypes", "importlib", "socket", "pty", "multiprocessing"),
        *("pickle", "marshal", "runpy", "cffi"),
    ]
)
"""Modules that do dangerous things, recognized also when another module has imported them under an alias."""

_EXPORTED: Final = SENSITIVE - {"runpy", "cffi"} | {"shutil"}

HOLDER_GETTERS: Final = frozenset(["get", "pop", "setdefault", "__getitem__"])
HOLDER_METHODS: Final = frozenset(["update", "values", "items", "__setitem__", "copy", "clear"])
"""Methods of a module's dictionary of names: those that look up one name, and those that go through all."""

ANYWHERE: Final = frozenset(["os", "subprocess", "builtins", "__builtins__", "ctypes", "importlib"])
"""Modules that are recognized by name even as an attribute of an unknown object: `thing.os.system`."""

IMPORT_PATHS: Final = frozenset(["sys.path", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"])
"""Lists that decide which modules are loaded."""

HOLDERS: Final = IMPORT_PATHS | {"__main__", "builtins"}
"""Modules and lists whose changes the reader does not follow."""

TAKE_NAMES: Final[Mapping[str, Sequence[int | str]]] = {
    **dict.fromkeys(all_of("builtins", "getattr setattr delattr"), (1,)),
    **dict.fromkeys(["builtins.__import__", "importlib.import_module"], (0, "name")),
    "operator.attrgetter": range(100),
    "operator.methodcaller": (0,),
}
"""Functions that look something up by name, with the positions of their name arguments."""

_HANDED_ON: Final[Mapping[str, str]] = {
    **dict.fromkeys([*SENSITIVE, "__main__", *all_of("builtins", "getattr globals vars locals")], "dynamic"),
    **{path: deciding.rule for path, deciding in CALLED.items()},
    "shutil.rmtree": "delete-tree",
}
"""Modules and functions whose use cannot be followed once a program passes them on as values."""

CHANGES: Final = frozenset(
    [
        *("append", "clear", "extend", "insert", "pop", "remove", "reverse", "setdefault", "sort", "update"),
        *("__delitem__", "__iadd__", "__setitem__"),
    ]
)
"""Methods that change a list or a dictionary."""

BUILTINS: Final = frozenset([*vars(builtins), "__builtins__"])

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
    "asyncio.streams": "asyncio",
    "numpy.lib.npyio.DataSource": "numpy.DataSource",
    "profiling.tracing": "cProfile",
    "sqlite3.dbapi2": "sqlite3",
    "_sqlite3": "sqlite3",
    "ssl.create_connection": "socket.create_connection",
}

_NO_USE: Final = ("Error", "Exception", "Warning", "__")
KNOWN: Final = frozenset([*CALLED, *FILES])
"""Functions that meet a rule depending on their arguments."""
MAKERS: Final = frozenset(name.partition("()")[0] for name in (*FUNCTIONS, *FILES) if "()" in name)
"""Functions and classes that make an object whose methods are in the catalogue, after `()`."""


def canonical(path: str) -> str:
    """Return the one canonical name of a function that several modules have, such as `os.system` for `posix.system`."""
    if old := longest(path, _SAME):
        return canonical(_SAME[old] + path[len(old) :])
    head, _, last = path.rpartition(".")
    imported = last.lstrip("_").removesuffix("__")
    # The packages named here have a module or class of such a name themselves.
    if head and imported in _EXPORTED and head not in ("asyncio", "pandas.io", "socket"):
        return imported  # a module's own import of another, such as `random._os`
    # Packages elsewhere have an `io` of their own, such as `skimage.io`.
    return "io" if last in ("io", "_io") and head in sys.stdlib_module_names else path


def rule_of(path: str) -> str | None:
    """Return the rule that a function meets by being mentioned, whatever its arguments; `None` if there is none."""
    if path in FUNCTIONS or path in MODULES or path.endswith(_NO_USE):
        return FUNCTIONS.get(path)
    return MODULES.get(longest(path, MODULES))


def rule_of_call(path: str) -> str | None:
    """Return the rule that a function meets by being called, whatever its arguments; `None` if there is none."""
    constant = path.endswith(_NO_USE) or ".exceptions." in path or ".codes." in path or path in NETWORK_MODULES
    return rule_of(path) or ("network" if not constant and longest(path, NETWORK_MODULES) else None)


def rule_of_handing_on(path: str) -> str | None:
    """Return the rule that a module or function meets by being passed on as a value; `None` if there is none."""
    return _HANDED_ON.get(path) or (rule_of_call(path) if path.rpartition(".")[2].islower() else None)
