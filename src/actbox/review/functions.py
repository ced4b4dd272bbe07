"""Functions and modules of the standard library and of common packages that count by being used, and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def all_of(module: str, names: str) -> list[str]:
    """Return the full names of what a module has."""
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
"""Full names of functions whose very mention counts, called or not. `Profile().run` is a method of what it makes."""

CALLED: Final[Mapping[str, str]] = {
    "yaml.load": "unpickle",
    "yaml.load_all": "unpickle",
    "torch.load": "unpickle",
    "numpy.load": "unpickle",
    "numpy.lib.format.read_array": "unpickle",
    "shutil.rmtree": "delete-tree",
    "annotationlib.get_annotations": "dynamic",
    "inspect.get_annotations": "dynamic",
    "inspect.signature": "dynamic",
    "unittest.main": "dynamic",
    "unittest.TestProgram": "dynamic",
}
"""Functions that count by what they are called with."""

NETWORK_MODULES: Final = (
    *("requests", "httpx", "aiohttp", "urllib3", "httplib2", "pycurl", "websockets", "websocket", "paramiko"),
    *("urllib.request", "http.client", "ftplib", "smtplib", "smtpd", "poplib", "imaplib", "nntplib", "telnetlib"),
    *("xmlrpc.client", "xmlrpc.server", "socketserver", "urllib.robotparser", "boto3", "botocore", "grpc", "dns"),
    *("wsgiref.simple_server", "multiprocessing.connection"),
)
"""Modules whose functions and classes all count as use of the network when they are called."""

MODULES: Final[Mapping[str, str]] = {
    "distutils": "process",
    "ensurepip": "process",
    "multiprocessing.context": "process",
    "multiprocessing.forkserver": "process",
    "multiprocessing.managers": "process",
    "multiprocessing.pool": "process",
    "multiprocessing.popen_fork": "process",
    "multiprocessing.popen_forkserver": "process",
    "multiprocessing.popen_spawn_posix": "process",
    "multiprocessing.process": "process",
    "multiprocessing.resource_tracker": "process",
    "multiprocessing.spawn": "process",
    "multiprocessing.util": "process",
    "numpy.distutils": "process",
    "numpy.f2py": "process",
    "pip": "process",
    "setuptools": "process",
    "test.support.script_helper": "process",
    "venv": "process",
    "webbrowser": "process",
    "_interpreters": "code",
    "_testcapi": "code",
    "_testinternalcapi": "code",
    "_xxsubinterpreters": "code",
    "concurrent.futures.interpreter": "code",
    "concurrent.interpreters": "code",
    "idlelib": "code",
    "test.support": "code",
    "_frozen_importlib": "dynamic",
    "_frozen_importlib_external": "dynamic",
    "importlib._bootstrap": "dynamic",
    "importlib._bootstrap_external": "dynamic",
    "importlib.machinery": "dynamic",
    "sys.monitoring": "introspection",
}
"""Modules of which every function and class counts, unless `FUNCTIONS` has another rule for it."""

ACTING_IMPORTS: Final[Mapping[str, str]] = {
    "antigravity": "process",
    "asyncio.__main__": "code",
    "idlelib.idle": "code",
}
"""Modules that do something at once when they are imported."""
