"""What the part of Python that `monty` runs has not: each thing is told, with the engine that has it."""

from __future__ import annotations

import pytest

from actbox import ErrorKind, Sandbox

_LACKING = [
    # of the language
    "class A: pass\nclass B(A): pass",
    "class E(Exception): pass",
    "class M(type): pass\nclass A(metaclass=M): pass",
    "def g():\n    yield 1",
    "def g():\n    yield from [1]",
    "async def g():\n    yield 1",
    "x = 1\ndel x",
    "a = [1]\ndel a[:]",
    "from math import *",
    "class A:\n    @property\n    def x(self): return 1",
    "class A:\n    @classmethod\n    def x(cls): return 1",
    "type X = int",
    "import asyncio\nasync with asyncio.timeout(1):\n    pass",
    "try:\n    pass\nexcept* ValueError: pass",
    "class A:\n    def f(self): return super().f()\nA().f()",
    # special methods that would not be called
    "class A:\n    def __bool__(self): return False\n1 if A() else 2",
    "class A:\n    __slots__ = ('x',)\nA().y = 1",
    "class A:\n    __len__ = lambda self: 0\nbool(A())",
    "class A:\n    def __setattr__(self, name, value): raise ValueError(name)\nA().x = 1",
    "class A:\n    def __set_name__(self, owner, name): self.name = name\nclass B:\n    a = A()",
    "class A:\n    def __format__(self, form): return form\nf'{A():x}'",
    "class A:\n    def __len__(self): return 0\n1 if A() else 2",
    "class A:\n    def __ne__(self, other): return False\nA() != 1",
    "class A:\n    def __new__(cls): return 3\nA()",
    "class A:\n    def __lt__(self, other): return True\nsorted([A(), A()])",
    "class A:\n    def __iadd__(self, other): return 9\na = A()\na += 1",
    "class A:\n    def __getattr__(self, name): return name\nA().foo",
    "def f():\n    class A:\n        def __await__(self): return iter([])\n    return A()",
    # of what is built in
    "compile('1', 'a', 'eval')",
    "bytearray(b'a')",
    "memoryview(b'a')",
    "globals()",
    "__import__('os')",
    "exit(3)",
    "import sys\nsys.exit(3)",
    "object()",
    "'a'.translate({})",
    "(5).bit_length()",
    "int.from_bytes(b'a', 'big')",
    "str.maketrans('a', 'b')",
    "'a'.encode('latin-1')",
    "def f(): pass\nf.__name__",
    "class A: pass\nA().__dict__",
    "def f(): pass\nf.x = 1",
    # of the standard library
    "import threading",
    "import subprocess",
    "import statistics",
    "import heapq",
    "import requests",
    "from collections import OrderedDict",
    "import functools\nfunctools.singledispatch",
    "import json\njson.dumps({1}, default=list)",
    "import json\njson.loads('{}', object_hook=dict)",
    "import re\nre.sub('a', lambda m: 'b', 'a')",
    "import re\nre.match('(a)', 'a').expand('x')",
    "import datetime\ndatetime.date(2020, 1, 1).isocalendar()",
]


@pytest.mark.parametrize("program", _LACKING)
async def test_what_is_missing_is_told_with_the_engine_that_has_it(box: Sandbox, program: str) -> None:
    result = await box.run(program)
    assert result.error is not None
    assert result.error.kind is ErrorKind.UNSUPPORTED, result.error
    assert "linux engine" in result.error.hint
    assert "monty engine" in result.error.hint + result.error.message


@pytest.mark.parametrize(
    "program",
    [
        "'a'.nothing",
        "'a'.encode('klingon')",
        "import json\njson.dumps(1, nothing=2)",
        "print(1, nothing=2)",
        "import math\nmath.nothing",
        "class A: pass\nA().foo",
        "[].foo = 1",
        "def f(a): pass\nf(b=1)",
        "def default(default): pass\ndefault(key=1)",
    ],
)
async def test_what_python_has_not_either_is_the_programs_own_error(box: Sandbox, program: str) -> None:
    result = await box.run(program)
    assert result.error is not None
    assert result.error.kind is ErrorKind.RUNTIME, result.error


@pytest.mark.parametrize("program", ["def f(:\n  pass", "print('a", "if True\n    pass", "x = = 1"])
async def test_what_is_no_python_at_all_is_a_syntax_error(box: Sandbox, program: str) -> None:
    error = (await box.run(program)).error
    assert error is not None
    assert (error.kind, error.line) == (ErrorKind.SYNTAX, 1)


async def test_the_line_of_a_method_that_would_not_be_called_is_told(box: Sandbox) -> None:
    error = (await box.run("print('begun')\nclass A:\n    def __len__(self):\n        return 0")).error
    assert error is not None
    assert error.line == 3
    assert error.hint == "do without it, or run the program in the linux engine, which is full CPython"
    named = await box.run("text = 'def __len__(self)'\ndef __len__(x): return 4\n__len__(text)")
    assert named.value == 4
