"""`Peer`: one end of the conversation between the sandbox of the tests and that of the program under test.

Each end asks the other to do one thing with objects (call, read an attribute, add) and gets a value or an exception.
Values of the standard library's data types, NumPy's arrays and pandas's tables are copied. All other objects stay where
they are, and the other end has a `Remote` of each.

The tests' end believes nothing but the data. Nothing is unpickled. The program can ask the tests' end only to call what
the tests gave it. Exceptions become classes that the tests' end has already, or new ones.

An object of the program could pretend to equal any number. So a `Remote` neither equals data nor has an order with it,
and arithmetic with data gives a sealed `Remote`, which becomes neither a number nor a truth value.
"""

from __future__ import annotations

import collections
import contextlib
import io
import operator
import sys
import traceback
import types
from collections.abc import Coroutine

from .forms import Nonsense, checked_text, copy_of_form, is_deep, is_plain, library_form, library_value, replace_content

TYPE_CHECKING = False  # importing typing takes each sandbox longer than all else here
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Any

    Message = Any
    Exchange = Callable[[Message], Message]
    Names = tuple[str, ...]  # the module and the qualified name of a class

PROGRAM_FILE = "program.py"
TESTS_MODULE = "test_checks"

CO_COROUTINE = 0x80  # `inspect.CO_COROUTINE`

_ITEMS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (list, tuple, set, frozenset, collections.deque)
}
_MAPPINGS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
_MOST_TEXT = 20_000
_UNTRUSTED = frozenset({"__main__", "_pytest", "hypothesis", "pluggy", "pytest", "unittest"})
"""Modules whose exceptions and classes the program may not name: some of these end a test as skipped. Nor may it name
them by another module that has imported them.
"""
_COPIED = frozenset({"builtins", "numpy", "pandas"})
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "divmod")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_ORDER = ("lt", "le", "gt", "ge")


class ProgramLost(BaseException):
    """The program under test has ended, does not answer, or answers nonsense. No `except Exception` catches this."""


def _call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _to_its_end(coroutine: Any) -> Any:
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def _attribute_for_program(owner: Any, name: str) -> Any:
    """Return an attribute of an object that the tests gave the program: a test's own object or a mock."""
    if name.startswith("_") or not _is_test_object(owner):
        raise AttributeError(f"the program may not read {name} of what a test gave it")
    return getattr(owner, name)


def _is_test_object(value: Any) -> bool:
    return type(value).__module__ in (TESTS_MODULE, "unittest.mock")


OF_TESTS: Mapping[str, Callable[..., Any]] = {"call": _call, "getattr": _attribute_for_program}
"""The operations that the program can ask of the tests."""

OF_PROGRAM: Mapping[str, Callable[..., Any]] = {
    "call": _call,
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "contains": operator.contains,
    "enter": lambda manager: manager.__enter__(),
    "exit": lambda manager: manager.__exit__(None, None, None),
    "run": _to_its_end,
    "eq": operator.eq,
    "ne": operator.ne,
    "names": lambda found: [name for name in dir(found) if not name.startswith("_")],
    **{name: getattr(operator, name) for name in (*_ORDER, "neg", "pos", "invert", "abs")},
    **{name: divmod if name == "divmod" else getattr(operator, f"__{name}__") for name in (*_BINARY, *_BITWISE)},
    **{each.__name__: each for each in (len, bool, int, float, hash, iter, next, reversed, round, str, repr, format)},
    **{each.__name__: each for each in (isinstance, issubclass)},
}
"""The operations that the tests can ask of the program."""


class Peer:
    """One end of the conversation. `exchange` sends a message and returns the other end's next one."""

    def __init__(self, exchange: Exchange, operations: Mapping[str, Callable[..., Any]], *, is_program: bool) -> None:
        self._exchange = exchange
        self._operations = operations
        self._is_program = is_program
        self._given: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._classes: dict[Names, Any] = {}
        self.lost = ""
        """The reason why the program no longer answers."""

    # Asking

    def ask(self, operation: str, /, *args: Any, keep: bool = False, **kwargs: Any) -> Any:
        """Return the value of an operation at the other end, or raise its exception.

        With `keep` the value stays there, and a sealed `Remote` is returned.
        """
        if self.lost:
            raise ProgramLost(self.lost)
        message: Message = {
            "do": operation,
            "args": [self.give(each) for each in args],
            "kwargs": {name: self.give(each) for name, each in kwargs.items()},
            "keep": keep,
        }
        reply = self._exchange(message)
        while type(reply) is dict and "do" in reply:
            reply = self._exchange(self.serve(reply))
        if self._is_program:
            return self._opened(reply, args, keep)
        if type(reply) is dict and "gone" in reply:
            self._lose(str(reply["gone"]))
        try:
            return self._opened(reply, args, keep)
        except Exception as error:
            if getattr(error, "of_program", False):
                if isinstance(error, (StopIteration, StopAsyncIteration)) and operation != "next":
                    # StopIteration would silently end a loop of the tests, such as `all(map(...))`.
                    raise RuntimeError(f"the program raised {type(error).__name__}") from None
                raise
            self._lose(f"the program answers nonsense ({type(error).__name__}: {error})")

    def _lose(self, reason: str) -> None:
        self.lost = reason
        raise ProgramLost(reason)

    def _opened(self, reply: Message, args: Sequence[Any], keep: bool) -> Any:
        sys.stdout.write(checked_text(reply.get("out", "")))
        sys.stderr.write(checked_text(reply.get("err", "")))
        for place, form in reply.get("changed", ()):
            replace_content(args[place], self.take(form))
        if "raise" in reply:
            raise self._error(reply["raise"])
        if keep and "remote" not in reply["value"]:
            raise Nonsense("a value in place of an object")
        value = self.take(reply["value"])
        if keep and type(value) is Remote:
            value._remote.sealed = True
        return value

    # Answering

    def serve(self, request: Message) -> Message:
        """Return the answer to a request of the other end."""
        out, err = io.StringIO(), io.StringIO()
        reply: dict[str, Any]
        try:
            operation = self._operations[request["do"]]
            forms = copy_of_form(request["args"]) if self._is_program else ()
            args = [self.take(each) for each in request["args"]]
            kwargs = {name: self.take(each) for name, each in request["kwargs"].items()}
            with contextlib.ExitStack() as stack:
                if self._is_program:
                    stack.enter_context(contextlib.redirect_stdout(out))
                    stack.enter_context(contextlib.redirect_stderr(err))
                value = operation(*args, **kwargs)
            reply = {"value": self._kept(value) if request["keep"] else self.give(value)}
            if self._is_program:
                reply["changed"] = self._changed(forms, args)
        except ProgramLost:
            raise
        except BaseException as error:
            reply = {"raise": self.described(error)}
        reply.update(out=out.getvalue()[:_MOST_TEXT], err=err.getvalue()[:_MOST_TEXT])
        return reply

    def _changed(self, forms: Sequence[Message], args: Sequence[Any]) -> list[list[Any]]:
        """Return the lists, dicts and sets among the arguments that the operation has changed."""
        changed: list[list[Any]] = []
        for place, value in enumerate(args):
            if type(value) in (list, dict, set) and "yours" not in forms[place]:
                now = self.give(value)
                if now != forms[place]:
                    changed.append([place, now])
        return changed

    def described(self, error: BaseException) -> Message:
        """Return an exception in the form in which it is sent."""
        frames = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == PROGRAM_FILE]
        args: list[Message] = []
        attributes: dict[str, Message] = {}
        said = ""
        with contextlib.suppress(Exception):  # the program's own exceptions may fail in anything
            said = str(error)[:_MOST_TEXT]
            args = [self.give(each) for each in error.args]
            attributes = {name: self.give(value) for name, value in vars(error).items() if not name.startswith("_")}
        line = frames[-1] if frames else 0
        return {"mro": _names_of(type(error)), "text": said, "args": args, "attributes": attributes, "line": line}

    # Values and their forms

    def give(self, value: Any) -> Message:
        """Return a value in the form in which it is sent."""
        if is_plain(value):
            return {"data": value}
        kind = type(value)
        if kind is Remote:
            return {"yours": value._remote.number}
        if kind.__name__ in _ITEMS and _ITEMS[kind.__name__] is kind and not is_deep(value):
            return {"items": [kind.__name__, [self.give(each) for each in value]]}
        if kind in _MAPPINGS and not is_deep(value):
            return {"pairs": [[self.give(key), self.give(each)] for key, each in value.items()]}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"named": [kind.__name__, list(kind._fields), [self.give(each) for each in value]]}
        made = library_form(value, self.give)
        if made is not None:
            return made
        if isinstance(value, type) and issubclass(value, BaseException):
            return {"exception": _names_of(value)}
        return self._kept(value)

    def _kept(self, value: Any) -> Message:
        if not self._is_program and not (callable(value) or _is_test_object(value)):
            raise TypeError(f"a test cannot give the program an object of type {type(value).__name__}")
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._given) + 1
            self._given[number] = value  # which also keeps the id from being used again
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        is_async = isinstance(code, types.CodeType) and bool(code.co_flags & CO_COROUTINE)
        return {"remote": [number, type(value).__name__, _names_of(type(value)), is_async]}

    def take(self, form: Message) -> Any:
        """Return the value of a form. Raises an exception for anything that is no form."""
        ((tag, content),) = form.items()
        if tag == "data":
            return content
        if tag == "yours":
            return self._given[content]
        if tag == "remote":
            number, name, mro, is_async = content
            remote = Remote(_Reference(self, int(number), checked_text(name), _all_names(mro), bool(is_async)))
            return _Coroutine(lambda: _ask(remote, "run")) if name == "coroutine" else remote
        if tag == "items":
            return _ITEMS[content[0]](map(self.take, content[1]))
        if tag == "pairs":
            return {self.take(key): self.take(each) for key, each in content}
        if tag == "named":
            name, fields, values = content
            kind: Any = collections.namedtuple(checked_text(name), fields)  # type: ignore[misc]
            return kind(*map(self.take, values))
        if tag == "exception":
            return self._class(content)
        return library_value(tag, content, self.take)

    # Exceptions

    def _error(self, said: Message) -> BaseException:
        kind = self._class(said["mro"])
        args = [self.take(each) for each in said["args"]]
        error: Any
        try:
            error = kind(*args)
        except Exception:  # its parameters are others than its arguments
            error = kind.__new__(kind)
            error.args = tuple(args)
        for name, form in said["attributes"].items():
            if not name.startswith("_"):
                with contextlib.suppress(AttributeError, TypeError):
                    setattr(error, name, self.take(form))
        error.of_program = True
        error.program_text = checked_text(said["text"])
        error.program_line = int(said["line"])
        found: BaseException = error
        return found

    def _class(self, mro: Message) -> Any:
        """Return the exception class for the names of a class and its bases: a known one, or one derived from it."""
        new: list[Names] = []
        base: Any = RuntimeError
        for names in _all_names(mro):
            found = _known(names)
            if isinstance(found, type) and issubclass(found, (Exception, SystemExit)):
                base = found
                break
            if names[0] != "builtins":
                new.append(names)
        for names in reversed(new):
            if names not in self._classes:
                words = {"__module__": names[0], "__str__": lambda self: getattr(self, "program_text", "")}
                self._classes[names] = type(names[1].rpartition(".")[2], (base,), words)
            base = self._classes[names]
        return base


class _Reference:
    """The description of an object at the other end. `mro` names its class and the bases of that."""

    __slots__ = ("is_async", "mro", "name", "number", "peer", "sealed")

    def __init__(self, peer: Peer, number: int, name: str, mro: list[Names], is_async: bool) -> None:
        self.peer = peer
        self.number = number
        self.name = name
        self.mro = mro
        self.is_async = is_async
        self.sealed = False


class Remote:
    """An object at the other end. `_remote` is the only name that it takes from the object's own."""

    __slots__ = ("_remote",)

    _remote: _Reference

    def __init__(self, reference: _Reference) -> None:
        object.__setattr__(self, "_remote", reference)

    @property  # type: ignore[misc]  # Python reads it, and `__setattr__` alone could set it
    def __class__(self) -> Any:
        """The object's class if it is of a library that both ends have, so that `isinstance` knows a Figure.

        An object that says that it is an array or a table is none: those are copied.
        """
        for names in self._remote.mro:
            found = _known(names)
            if isinstance(found, type) and names[0].partition(".")[0] not in _COPIED:
                return found
        return Remote

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, "delattr", name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the object; a coroutine function of the program returns a coroutine here."""
        # A call of a coroutine function is kept, so that the program makes a coroutine, which is waited for later.
        return _ask(self, "call", *args, keep=self._remote.is_async, **kwargs)

    def __eq__(self, other: Any) -> Any:
        return _ask(self, "eq", other) is True if type(other) is Remote else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return _ask(self, "ne", other) is True if type(other) is Remote else NotImplemented

    def __hash__(self) -> int:
        return int(_ask(self, "hash"))

    def __bool__(self) -> bool:
        return bool(_number(self, "bool"))

    def __int__(self) -> int:
        return int(_number(self, "int"))

    def __float__(self) -> float:
        return float(_number(self, "float"))

    def __len__(self) -> int:
        return int(_ask(self, "len"))

    def __str__(self) -> str:
        return str(_ask(self, "str"))

    def __repr__(self) -> str:
        return str(_ask(self, "repr"))

    def __format__(self, how: str) -> str:
        return str(_ask(self, "format", how))

    def __dir__(self) -> list[str]:
        return list(_ask(self, "names"))

    def __iter__(self) -> Iterator[Any]:
        found: Any = _ask(self, "iter")
        return found if type(found) is Remote else iter(found)

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __reversed__(self) -> Any:
        return _ask(self, "reversed")

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "delitem", key)

    def __contains__(self, member: Any) -> bool:
        return _ask(self, "contains", member) is True

    def __enter__(self) -> Any:
        return _ask(self, "enter")

    def __exit__(self, kind: Any, error: Any, frames: Any) -> bool:
        return _ask(self, "exit") is True

    def __abs__(self) -> Any:
        return _ask(self, "abs", keep=self._remote.sealed)

    def __neg__(self) -> Any:
        return _ask(self, "neg", keep=self._remote.sealed)

    def __pos__(self) -> Any:
        return _ask(self, "pos", keep=self._remote.sealed)

    def __invert__(self) -> Any:
        return _ask(self, "invert", keep=self._remote.sealed)

    def __round__(self, *digits: Any) -> Any:
        return _ask(self, "round", *digits, keep=self._remote.sealed)

    def __instancecheck__(self, value: Any) -> bool:
        return type(value) is Remote and _ask(value, "isinstance", self) is True

    def __subclasscheck__(self, value: Any) -> bool:
        return type(value) is Remote and _ask(value, "issubclass", self) is True

    def __mro_entries__(self, bases: Any) -> Any:
        raise TypeError("a test cannot derive a class from one of the program")


def _ask(remote: Remote, operation: str, /, *args: Any, keep: bool = False, **kwargs: Any) -> Any:
    return remote._remote.peer.ask(operation, remote, *args, keep=keep, **kwargs)


def _number(remote: Remote, operation: str) -> Any:
    if remote._remote.sealed:
        raise TypeError(f"a test cannot compare an object of the program ({remote._remote.name}) with data")
    return _ask(remote, operation)


def _arithmetic(operation: str, reflected: bool) -> Callable[[Remote, Any], Any]:
    def method(self: Remote, other: Any) -> Any:
        # With data on one side the program sees a number of the test, so the outcome must not become a verdict.
        keep = type(other) is not Remote or self._remote.sealed or other._remote.sealed
        pair = (other, self) if reflected else (self, other)
        return self._remote.peer.ask(operation, *pair, keep=keep)

    return method


def _comparison(operation: str) -> Callable[[Remote, Any], Any]:
    def method(self: Remote, other: Any) -> Any:
        return _ask(self, operation, other) is True if type(other) is Remote else NotImplemented

    return method


for _name in (*_BINARY, *_BITWISE):
    setattr(Remote, f"__{_name}__", _arithmetic(_name, False))
    setattr(Remote, f"__r{_name}__", _arithmetic(_name, True))
for _name in _ORDER:
    setattr(Remote, f"__{_name}__", _comparison(_name))


class _Coroutine(Coroutine):  # type: ignore[type-arg]
    """A coroutine of the program, which runs to its end when the test waits for it."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run

    def send(self, value: Any, /) -> Any:
        raise StopIteration(self._run())

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        pass

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()  # which makes this a generator
        return self._run()


# Names of classes


def _names_of(kind: type) -> list[list[str]]:
    return [[str(each.__module__), str(each.__qualname__)] for each in kind.__mro__[:-1]][:20]


def _all_names(mro: Message) -> list[Names]:
    return [tuple(map(checked_text, each)) for each in mro]


def _known(names: Names) -> Any:
    """Return the class of that module and name, if this end has imported it anyway."""
    module = sys.modules.get(names[0])
    if names[0].partition(".")[0] in _UNTRUSTED or not isinstance(module, types.ModuleType):
        return None
    found = vars(module).get(names[1])
    bases = found.__mro__ if isinstance(found, type) else ()
    return None if any(str(each.__module__).partition(".")[0] in _UNTRUSTED for each in bases) else found
