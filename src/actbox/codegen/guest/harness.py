"""The tests' end of a text check: it runs the tests, to which the program under test is a module far away.

No line of the program runs in this interpreter, and the report is the value of the harness's own program.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import importlib.machinery
import io
import linecache
import os
import symtable
import sys
import types

from .peer import OF_TESTS, TESTS_MODULE, Peer, ProgramLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Set
    from typing import Any

    from .peer import Exchange

FILE = TESTS_MODULE + ".py"
_USUAL_NAMES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}
_PROGRAM = frozenset({"solution", "program", "main"})
"""The names that are the program's whatever the environment has."""
_JUDGES = frozenset({"hypothesis", "matplotlib", "numpy", "pandas", "pytest", "scipy"})
"""The names that are never the program's: tests that lack one of these cannot be run."""
_MOST_TESTS = 1_000
_MOST_MESSAGE = 2_000
_SETUPS = ("setup_module", "teardown_module", "setup_function", "teardown_function", "setup_class", "setup_method")


def run(exchange: Exchange, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run tests and return the report.

    `given` has their `source` and `kind`, the `names` of the modules that are the program's, and the folder whose
    `files`, the outcome of the program's run, are linked into the working directory.

    The report has `tests`, each with a name, an outcome (passed, failed, skipped) and a message, and `needs`, the
    package without which the tests cannot run.
    """
    _link(given["files"])
    peer = Peer(exchange, OF_TESTS, is_program=False)
    tests = _Tests(peer)
    module = types.ModuleType(TESTS_MODULE)
    module.__file__ = FILE
    sys.modules[TESTS_MODULE] = module
    needs = ""
    try:
        needs = _run(given["source"], given["kind"], given["names"], tests, module, peer)
    except BaseException as error:
        tests.add("the statements", "failed", _message(error))
    return {"tests": tests.found, "needs": needs}


def _run(source: str, kind: str, names: Sequence[str], tests: _Tests, module: types.ModuleType, peer: Peer) -> str:
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    if kind == "doctest":
        import doctest

        examples = doctest.DocTestParser().get_doctest(source, vars(module), TESTS_MODULE, FILE, 0)
        _bind(examples.globs, "".join(each.source for each in examples.examples), names, peer)
        _examples_runner(tests).run(examples, out=lambda text: None, clear_globs=False)
        return ""
    tree = ast.parse(source, FILE)
    _bind(vars(module), source, names, peer)
    exec(compile(source, FILE, "exec", dont_inherit=True), vars(module))
    if _has_statements(tree):
        tests.add("the statements", "passed")
    if not _needs_pytest(tree):
        tests.run_module(module)
    else:
        try:
            importlib.import_module("pytest")
        except ImportError:
            return "pytest"
        tests.run_pytest(module)
    return ""


def _link(folder: str) -> None:
    """Link the files below a directory into the working directory; copy them where there are no links."""
    for path, _, names in os.walk(folder):
        for name in names:
            source = os.path.join(path, name)
            target = os.path.relpath(source, folder)
            if os.path.dirname(target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                os.symlink(os.path.abspath(source), target)
            except OSError:
                with open(source, "rb") as given, open(target, "wb") as made:
                    made.write(given.read())


# The program as modules


class _ProgramModule(types.ModuleType):
    """A module of the program: each of its attributes is read there when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _public(vars(self)["__peer__"].ask("names", vars(self)["__remote__"]), vars(self)["__hidden__"])
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self)["__peer__"].ask("getattr", vars(self)["__remote__"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, _ProgramModule):  # as the import of a submodule sets it
            super().__setattr__(name, value)
        else:
            vars(self)["__peer__"].ask("setattr", vars(self)["__remote__"], name, value)

    def __delattr__(self, name: str) -> None:
        vars(self)["__peer__"].ask("delattr", vars(self)["__remote__"], name)


class _Finder:
    """The finder and loader of the program's modules. A star import does not bind the `hidden` names.

    Nothing is imported from the workspace: a file there is the program's, and would run beside the tests. Nor does a
    file of the program take the name of a module of the environment, such as `math` or `pandas`, by which tests judge.
    """

    def __init__(self, peer: Peer, names: Sequence[str], hidden: Set[str]) -> None:
        self._peer = peer
        self._names = frozenset(names)
        self._hidden = hidden
        self._workspace = os.path.abspath(".")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._names and not self._is_of_environment(name.partition(".")[0]):
            spec: Any = importlib.machinery.ModuleSpec
            return spec(name, self, is_package=True)
        folders = [each for each in (sys.path if path is None else path) if self._has(each)]
        if folders and importlib.machinery.PathFinder.find_spec(name, folders) is not None:
            raise ImportError(f"tests import no file of the workspace, and {name} is one; the program is 'solution'")
        return None

    def _is_of_environment(self, name: str) -> bool:
        if name in _PROGRAM:
            return False
        if name in _JUDGES or name in sys.builtin_module_names or name in getattr(sys, "stdlib_module_names", ()):
            return True
        folders = [each for each in sys.path if not self._has(each)]
        return importlib.machinery.PathFinder.find_spec(name, folders) is not None

    def _has(self, folder: str) -> bool:
        return os.path.commonpath([self._workspace, os.path.abspath(folder)]) == self._workspace

    def create_module(self, spec: Any) -> types.ModuleType:
        return _ProgramModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        remote = self._peer.ask("module", module.__name__)
        vars(module).update(__peer__=self._peer, __remote__=remote, __hidden__=self._hidden)


def _public(names: Any, hidden: Set[str]) -> list[str]:
    prefixes = ("_", "test", "Test", "pytest", "setup", "teardown")
    return [name for name in names if type(name) is str and name not in hidden and not name.startswith(prefixes)]


def _bind(scope: dict[str, Any], source: str, names: Sequence[str], peer: Peer) -> None:
    """Bind the names that the tests use without importing them: usual modules, then the program's.

    The program gives no name that the tests' own words have: a built-in function, a module, a test.
    """
    table = symtable.symtable(source, FILE, "exec")
    standard = {name: name for name in getattr(sys, "stdlib_module_names", ())}
    modules = {**standard, **_USUAL_NAMES}
    assigned = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    own = {*assigned, *scope, *vars(builtins)}
    # The finder of the program's modules comes first: a module of that name in the environment is not the program.
    finder: Any = _Finder(peer, names, own | set(modules))
    sys.meta_path.insert(0, finder)
    free = set(_global_names(table)) - own
    for name in free.intersection(modules):
        with contextlib.suppress(ImportError):
            scope[name] = importlib.import_module(modules[name])
    free.difference_update(modules)
    if free and names:  # the first name is always the program's
        program = importlib.import_module(names[0])
        for name in free.intersection(program.__all__):
            scope[name] = getattr(program, name)


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a module, or a function in it, reads from the module."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


# Running


class _Tests:
    """The tests that have run, with their outcomes."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.found: list[list[str]] = []

    def add(self, name: str, outcome: str, message: str = "") -> None:
        """Add a test. None passes in which the program was lost, whatever the test made of that."""
        if self._peer.lost and outcome != "failed":
            outcome, message = "failed", self._peer.lost
        if len(self.found) < _MOST_TESTS or outcome == "failed":
            self.found.append([name[:200], outcome, message[:_MOST_MESSAGE]])

    def run_module(self, module: types.ModuleType) -> None:
        """Run a module's functions, classes and cases without a test runner."""
        for name, found in list(vars(module).items()):
            if isinstance(found, type) and found.__module__ == TESTS_MODULE:
                if hasattr(found, "assertEqual"):
                    _run_cases(found, self)
                elif name.startswith("Test"):
                    for method in [each for each in vars(found) if each.startswith("test")]:
                        self._run(f"{name}.{method}", functools.partial(_call_method, found, method))
            elif name.startswith("test") and _is_own(found):
                self._run(name, found)

    def _run(self, name: str, test: Callable[[], Any]) -> None:
        try:
            value = test()
            if isinstance(value, types.CoroutineType):
                import asyncio

                asyncio.run(value)
        except BaseException as error:
            skips = type(error).__name__ == "SkipTest" and not hasattr(error, "of_program")
            self.add(name, "skipped" if skips else "failed", _message(error))
        else:
            self.add(name, "passed")

    def run_pytest(self, module: types.ModuleType) -> None:
        """Run a module with pytest."""
        import tempfile

        import pytest

        folder = tempfile.mkdtemp()
        for name in (FILE, "pytest.ini"):
            with open(os.path.join(folder, name), "w") as file:
                file.write("[pytest]\n" if name == "pytest.ini" else "")
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.environ.pop("PYTEST_ADDOPTS", None)
        words = ["-q", "-p", "no:cacheprovider", "--capture=sys", "--rootdir", folder]
        words += ["-c", os.path.join(folder, "pytest.ini"), os.path.join(folder, FILE)]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            pytest.main(words, plugins=[_Plugin(self, module)])


def _is_own(found: Any) -> bool:
    """Return True for a function that the tests define; decorators may be around it."""
    function = found.__func__ if isinstance(found, types.MethodType) else found
    while isinstance(function, types.FunctionType):
        if function.__code__.co_filename == FILE:
            return True
        function = vars(function).get("__wrapped__")
    return False


def _call_method(kind: type, name: str) -> Any:
    return getattr(kind(), name)()


def _run_cases(kind: Any, tests: _Tests) -> None:
    """Run a `unittest.TestCase`."""
    import unittest

    class Result(unittest.TestResult):
        def _add(self, test: Any, outcome: str, message: str = "") -> None:
            tests.add(str(getattr(test, "_testMethodName", test)), outcome, message)

        def addSuccess(self, test: Any) -> None:
            self._add(test, "passed")

        def addError(self, test: Any, err: Any) -> None:
            self._add(test, "failed", _message(err[1]))

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self._add(subtest, "failed", _message(err[1]))

        def addSkip(self, test: Any, reason: str) -> None:
            self._add(test, "skipped", reason)

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            self._add(test, "skipped", "expected to fail")

        def addUnexpectedSuccess(self, test: Any) -> None:
            self._add(test, "failed", "passed against expectation")

    unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(Result())


def _examples_runner(tests: _Tests) -> Any:
    """Return a runner of a doctest, for which each example is a test."""
    import doctest

    class Runner(doctest.DocTestRunner):
        def report_start(self, out: Any, test: Any, example: Any) -> None:
            pass

        def report_success(self, out: Any, test: Any, example: Any, got: str) -> None:
            tests.add(example.source.strip(), "passed")

        def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
            want, got = (_last_line(text.strip()) or "nothing" for text in (example.want, got))
            tests.add(example.source.strip(), "failed", f"expected {want}, got {got}")

        def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
            tests.add(example.source.strip(), "failed", _message(exc_info[1]))

    return Runner(verbose=False, optionflags=doctest.ELLIPSIS)


def _last_line(text: str) -> str:
    """Return the last line of a traceback; any other text is returned itself."""
    return text.rpartition("\n")[2] if text.startswith("Traceback") else text


class _Plugin:
    """The plugin through which pytest runs a module that exists already, and reports."""

    def __init__(self, tests: _Tests, module: types.ModuleType) -> None:
        self._tests = tests
        self._module = module
        self._messages: dict[str, str] = {}

    def pytest_pycollect_makemodule(self, module_path: Any, parent: Any) -> Any:
        import pytest

        made: Any = pytest.Module.from_parent(parent, path=module_path)
        made.obj = self._module
        return made

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if _is_own(getattr(item, "obj", None))]

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Any:
        import asyncio
        import inspect

        if not inspect.iscoroutinefunction(pyfuncitem.obj):
            return None
        names = inspect.signature(pyfuncitem.obj).parameters
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.excinfo is not None:
            self._messages[item.nodeid] = _message(call.excinfo.value)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._tests.add("the module", "failed", str(report.longrepr))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or not report.passed:
            name = report.nodeid.partition("::")[2]
            self._tests.add(name, report.outcome, self._messages.get(report.nodeid, ""))


def _needs_pytest(tree: ast.Module) -> bool:
    """Return True for tests that use pytest's own words, or have parameters, which are its fixtures."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(each.name.partition(".")[0] == "pytest" for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pytest":
            return True
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if any(node.name.startswith("test") and node.args.args and not node.decorator_list for node in functions):
        return True
    return any(isinstance(node, ast.FunctionDef) and node.name in _SETUPS for node in ast.walk(tree))


def _has_statements(node: ast.AST) -> bool:
    """Return True if statements outside of functions and classes test something: an `assert`, or a call for nothing."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return True
    return any(map(_has_statements, ast.iter_child_nodes(node)))


# Messages


def _message(error: BaseException) -> str:
    """Return a failure in words: the line of the test, its values, and the program's line."""
    if isinstance(error, ProgramLost):
        return str(error)
    said = str(getattr(error, "program_text", "") or error)
    kind = "" if isinstance(error, AssertionError) and not hasattr(error, "of_program") else type(error).__name__
    if getattr(error, "program_line", 0):
        kind += f" in line {error.program_line} of the program"  # type: ignore[attr-defined]
    words = ": ".join(filter(None, (kind, said)))
    frames, frame = error.__traceback__, None
    while frames is not None:
        if frames.tb_frame.f_code.co_filename == FILE:
            frame, line = frames.tb_frame, frames.tb_lineno
        frames = frames.tb_next
    if frame is None:
        return words or type(error).__name__
    statement = linecache.getline(FILE, line).strip()
    value = _left_side(frame, line) if isinstance(error, AssertionError) else ""
    return ": ".join(filter(None, (f"line {line} `{statement}`", value, words)))


def _left_side(frame: types.FrameType, line: int) -> str:
    """Return the left side of a failed comparison with its value; the test's own expression is evaluated again."""
    with contextlib.suppress(BaseException):
        tree = ast.parse("".join(linecache.getlines(FILE)))
        for node in ast.walk(tree):
            if isinstance(node, ast.Assert) and node.lineno == line and isinstance(node.test, ast.Compare):
                left = node.test.left
                if isinstance(left, ast.Constant):
                    return ""
                value = eval(compile(ast.Expression(left), FILE, "eval"), frame.f_globals, frame.f_locals)
                return f"{ast.unparse(left)} is {repr(value)[:300]}"
    return ""
