"""What a program does is found however it is written, and what it only says in comments and strings is not."""

from __future__ import annotations

import pytest

from actbox.review import RULES, Rules, Severity, Verdict, review


def found(source: str, *, imports: bool = False) -> set[tuple[str, str]]:
    """Return rules and subjects; imports only where they are asked for."""
    return {(f.rule, f.subject) for f in review(source).findings if imports or f.rule != "import"}


SYSTEM = ("process", "os.system")
EVAL = ("code", "builtins.eval")

EVASIONS = [
    ("import os\nos.system('x')", SYSTEM),
    ("import os as o\no.system('x')", SYSTEM),
    ("from os import system as s\ns('x')", SYSTEM),
    ("from os import *\nsystem('x')", SYSTEM),
    ("import posix\nposix.system('x')", SYSTEM),
    ("import os.path\nos.system('x')", SYSTEM),
    ("import os.path as p\np.os.system('x')", SYSTEM),
    ("import random\nrandom._os.system('x')", SYSTEM),
    ("import os\nf = os.system\ng = f\ng('x')", SYSTEM),
    ("import os\na, b = os, 1\na.system('x')", SYSTEM),
    ("import os\n[a, (b, c)] = [1, (2, os)]\nc.system('x')", SYSTEM),
    ("import os\nlist(map(os.system, ['x']))", SYSTEM),
    ("import os\n[os.system][0]('x')", SYSTEM),
    ("import os\n{'f': os.system}['f']('x')", SYSTEM),
    ("import os\n(lambda f: f('x'))(os.system)", SYSTEM),
    ("import os\n(os if 1 else 2).system('x')", SYSTEM),
    ("import os\n(0 or os).system('x')", SYSTEM),
    ("import os\n(o := os).system('x')\n", SYSTEM),
    ("import os\nif (o := os): o.system('x')\n", SYSTEM),
    ("import os\n[m.system('x') for m in [os]]", SYSTEM),
    ("import os\nfor m in (os,): m.system('x')", SYSTEM),
    ("import os\ndef f(m=os): m.system('x')", SYSTEM),
    ("import os\nmatch os:\n    case m: m.system('x')", SYSTEM),
    ("import os\nmatch [os]:\n    case [m]: m.system('x')", SYSTEM),
    ("import os\nwith open('x') as f, os.popen('x') as p: pass", ("process", "os.popen")),
    ("import os\n@os.system\ndef f(): pass", SYSTEM),
    ("import os\nclass A:\n    f = os.system", SYSTEM),
    ("class A:\n    from os import system", SYSTEM),
    ("class A:\n    import os\nA.os.system('x')", SYSTEM),
    ("import os\ndef f(x: os.system('x')): pass", SYSTEM),
    ("import os\ndef f(x=os.system('x')): pass", SYSTEM),
    ("import os\nos.system.__call__('x')", SYSTEM),
    ("import functools, os\nfunctools.partial(os.system, 'x')()", SYSTEM),
    ("import os\nf'{os.system(1)}'", SYSTEM),
    ("import os\ndef f():\n    global o\n    o = os\nf()\no.system('x')", SYSTEM),
    ("import os\ndef f():\n    m = None\n    def g():\n        nonlocal m\n        m = os\n    m.system('x')", SYSTEM),
    ("try:\n    import nothing as m\nexcept ImportError:\n    import os as m\nm.system('x')", SYSTEM),
    ("b = a\na = b\nimport os\nb = os\na.system('x')", SYSTEM),
    ("import os\na = os\nfor x in y:\n    b = a\n    a = b\nb.system('x')", SYSTEM),
    ("import os\na = os\nfor x in y:\n    c = a\n    b = c\n    a = b\nb.system('x')", SYSTEM),
    ("import os\na = os\na = b((c := a), b.system('x'))\nb = c", SYSTEM),
    ("class A:\n    os = os\n    os.system('x')  # imported by an earlier program of the session", SYSTEM),
    ("import os\na = b = None\na = b or os\nb = a or 1\nb.system('x')", SYSTEM),
    ("import os\nb = 0\nfor x in y:\n    b.system('x')\n    a = b or os\n    b = a", SYSTEM),
    ("import os\nc = (b := (a := (c or os)))\na = b\na.system('x')\nb.system('x')", SYSTEM),
    (
        "import os\ndef f():\n    def g():\n        nonlocal m\n        m = os\n    m = 0\n    g()\n    m.system('x')",
        SYSTEM,
    ),
    ("__import__('os').system('x')", SYSTEM),
    ("__import__('o' + 's').system('x')", SYSTEM),
    ("import importlib\nimportlib.import_module('os').system('x')", SYSTEM),
    ("from importlib import import_module as i\ni('os').system('x')", SYSTEM),
    ("import sys\nsys.modules['os'].system('x')", SYSTEM),
    ("import sys\nsys.modules.get('os').system('x')", SYSTEM),
    ("import os\ngetattr(os, 'system')('x')", SYSTEM),
    ("import os\ngetattr(os, 'sys' + 'tem')('x')", SYSTEM),
    ("import os\ngetattr(os, 'metsys'[::-1])('x')", SYSTEM),
    ("import os\ngetattr(os, ''.join(['sys', 'tem']))('x')", SYSTEM),
    ("import os\nn = 'tem'\ngetattr(os, f'sys{n}')('x')", SYSTEM),
    ("import os\ngetattr(os, chr(115) + 'ystem')('x')", SYSTEM),
    ("import os, base64\ngetattr(os, base64.b64decode('c3lzdGVt').decode())('x')", SYSTEM),
    ("import os, codecs\ngetattr(os, codecs.decode('flfgrz', 'rot13'))('x')", SYSTEM),
    ("import os\nvars(os)['system']('x')", SYSTEM),
    ("import os\nos.__dict__['system']('x')", SYSTEM),
    ("import os\nos.__dict__.get('system')('x')", SYSTEM),
    ("import os\nos.__getattribute__('system')('x')", SYSTEM),
    ("import os\nglobals()['os'].system('x')", SYSTEM),
    ("import os, __main__\n__main__.os.system('x')", SYSTEM),
    ("ｉｍｐｏｒｔ = 1\nimport ｏｓ\nｏｓ.ｓｙｓｔｅｍ('x')", SYSTEM),
    ("os.system('x')  # imported by an earlier program of the session", SYSTEM),
    ("import subprocess\nsubprocess.run(['x'])", ("process", "subprocess.run")),
    ("from subprocess import Popen\nPopen('x')", ("process", "subprocess.Popen")),
    ("import os\nos.kill(1, 9)", ("process", "os.kill")),
    ("import os\nos.execv('x', [])", ("process", "os.execv")),
    ("import asyncio\nawait asyncio.create_subprocess_exec('x')", ("process", "asyncio.create_subprocess_exec")),
    ("eval('1')", EVAL),
    ("exec('1')", ("code", "builtins.exec")),
    ("compile('1', '', 'eval')", ("code", "builtins.compile")),
    ("eval = eval\neval('1')", EVAL),
    ("if 0:\n    def eval(x): pass\neval('1')", EVAL),
    ("if 0:\n    def eval(x): pass\ndef f(): eval('1')", EVAL),
    ("eval('1')\ndef eval(x): pass", EVAL),
    ("eval: int\neval('1')", EVAL),
    ("def f(): eval('1')\ndef g(x: f()): pass\ndef eval(x): pass", EVAL),
    ("class A:\n    def f(): eval('1')\n    f()\ndef eval(x): pass", EVAL),
    ("def eval(x): pass\ndel eval\neval('1')", EVAL),
    ("try:\n    1 / 0\nexcept Exception as eval:\n    pass\neval('1')", EVAL),
    ("class A:\n    def eval(self): pass\neval('1')", EVAL),
    ("class A:\n    eval = 1\n    def f(self): eval('1')", EVAL),
    ("[eval for eval in ()]\neval('1')", EVAL),
    ("def f(): eval('1')\nf()\ndef eval(x): pass", EVAL),
    ("import builtins\nbuiltins.eval('1')", EVAL),
    ("import builtins\nbuiltins.__dict__['eval']('1')", EVAL),
    ("__builtins__.eval('1')", EVAL),
    ("__builtins__['eval']('1')", EVAL),
    ("globals()['__builtins__'].eval('1')", EVAL),
    ("print.__self__.eval('1')", EVAL),
    ("import os\ngetattr(os, input())('x')", ("dynamic", "builtins.getattr")),
    ("import os\ngetattr(*[os, 'system'])", ("dynamic", "builtins.getattr")),
    ("import os\nf = getattr\nf(os, input())", ("dynamic", "builtins.getattr")),
    ("list(map(getattr, [], []))", ("dynamic", "builtins.getattr")),
    ("__import__(input())", ("dynamic", "builtins.__import__")),
    ("import importlib\nimportlib.import_module(input())", ("dynamic", "importlib.import_module")),
    ("globals()[input()]()", ("dynamic", "__main__.__dict__")),
    ("globals()['print'] = 1", ("dynamic", "__main__.__dict__")),
    ("g = globals()\ng |= {}", ("dynamic", "__main__.__dict__")),
    ("import builtins\nbuiltins.__dict__[input()]", ("dynamic", "builtins.__dict__")),
    ("import builtins\nbuiltins.print = 1", ("dynamic", "builtins")),
    ("import sys\nsys.modules[input()]", ("dynamic", "sys.modules")),
    ("import os\ndef f(m): m.system('x')\nf(os)", ("dynamic", "os")),
    ("import os\nclass A: pass\nA.m = os", ("dynamic", "os")),
    ("import os\ndef f(): return os\nf().system('x')", ("dynamic", "os")),
    ("import os, operator\noperator.attrgetter('system')(os)", ("dynamic", "os")),
    ("().__class__.__base__.__subclasses__()", ("introspection", "__subclasses__")),
    ("print.__globals__", ("introspection", "__globals__")),
    ("getattr(print, '__globals__')", ("introspection", "__globals__")),
    ("import sys\nsys._getframe()", ("introspection", "sys._getframe")),
    ("import pickle\npickle.loads(b'')", ("unpickle", "pickle.loads")),
    ("import _pickle\n_pickle.loads(b'')", ("unpickle", "pickle.loads")),
    ("from pickle import Unpickler as U\nU(f).load()", ("unpickle", "pickle.Unpickler")),
    ("import marshal\nmarshal.load(f)", ("unpickle", "marshal.load")),
    ("import shelve\nshelve.open('x')", ("unpickle", "shelve.open")),
    ("import dill\ndill.loads(b'')", ("unpickle", "dill.loads")),
    ("import joblib\njoblib.load('x')", ("unpickle", "joblib.load")),
    ("import pandas as pd\npd.read_pickle('x')", ("unpickle", "pandas.read_pickle")),
    ("import torch\ntorch.load('x')", ("unpickle", "torch.load")),
    ("import numpy as np\nnp.load('x', allow_pickle=True)", ("unpickle", "numpy.load")),
    ("import yaml\nyaml.load(x)", ("unpickle", "yaml.load")),
    ("import yaml\nyaml.load(x, yaml.Loader)", ("unpickle", "yaml.load")),
    ("import yaml\nlist(map(yaml.load, x))", ("unpickle", "yaml.load")),
    ("import ctypes\nctypes.CDLL(None)", ("native", "ctypes.CDLL")),
    ("from cffi import FFI\nFFI()", ("native", "cffi.FFI")),
    ("import socket\nsocket.socket()", ("network", "socket.socket")),
    ("import requests as r\nr.get('https://a.example')", ("network", "requests.get")),
    ("from httpx import AsyncClient\nAsyncClient()", ("network", "httpx.AsyncClient")),
    ("import urllib.request\nurllib.request.urlopen('x')", ("network", "urllib.request.urlopen")),
    ("from http import client\nclient.HTTPConnection('x')", ("network", "http.client.HTTPConnection")),
    ("import aiohttp\naiohttp.ClientSession()", ("network", "aiohttp.ClientSession")),
    ("import smtplib, ftplib\nsmtplib.SMTP('x')", ("network", "smtplib.SMTP")),
    ("open('/etc/passwd')", ("system-read", "/etc/passwd")),
    ("open(file='/etc/passwd')", ("system-read", "/etc/passwd")),
    ("open(b'/etc/passwd')", ("system-read", "/etc/passwd")),
    ("open('../etc/passwd')", ("system-read", "/etc/passwd")),
    ("open('/tmp/../proc/self/environ')", ("system-read", "/proc/self/environ")),
    ("import io\nio.open('/etc/passwd')", ("system-read", "/etc/passwd")),
    ("d = '/etc'\nopen(d + '/passwd')", ("system-read", "/etc/passwd")),
    ("open(f'/etc/{input()}')", ("system-read", "/etc")),
    ("d = '/etc'\nfor x in y:\n    d = f = d + '/' + x\n    open(f)", ("system-read", "/etc")),
    ("from pathlib import Path\n(Path(input()) / '/etc/passwd').open()", ("system-read", "/etc/passwd")),
    ("import os\nopen(os.path.join('/etc', 'passwd'))", ("system-read", "/etc/passwd")),
    ("import os\nos.listdir('/root')", ("system-read", "/root")),
    ("import os\nos.open('/etc/passwd', os.O_RDONLY)", ("system-read", "/etc/passwd")),
    ("from pathlib import Path\nPath('/etc/passwd').read_text()", ("system-read", "/etc/passwd")),
    ("from pathlib import Path\n(Path('/etc') / 'passwd').open()", ("system-read", "/etc/passwd")),
    ("from pathlib import Path\n(Path.home() / '.ssh').iterdir()", ("system-read", "~/.ssh")),
    ("open('/etc/passwd', 'w')", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd')", ("system-read", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', 0)", ("system-read", "/etc/passwd")),
    ("import os\nos.open(path='/etc/passwd', flags=0)", ("system-read", "/etc/passwd")),
    ("import os\nread = 0\nos.open('/etc/passwd', read)", ("system-read", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', os.O_RDONLY | os.O_CLOEXEC | 0)", ("system-read", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', 1)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', -1)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', 0 if x else 2)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', os.O_RDONLY | os.O_TRUNC)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', os.O_RDONLY + os.O_RDWR)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc', os.O_TMPFILE)", ("system-write", "/etc")),
    ("import os\nos.open('/etc/passwd', *flags)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', **flags)", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', flags=input())", ("system-write", "/etc/passwd")),
    ("import os\nflags = 0\nflags |= x\nos.open('/etc/passwd', flags)", ("system-write", "/etc/passwd")),
    ("import shutil\nshutil.copy('/etc/passwd', 'x')", ("system-read", "/etc/passwd")),
    ("import shutil\nshutil.copyfile(dst='x', src='/etc/passwd')", ("system-read", "/etc/passwd")),
    ("import shutil\nshutil.copytree('/etc', 'x')", ("system-read", "/etc")),
    ("import shutil\nshutil.make_archive('x', 'zip', '/etc')", ("system-read", "/etc")),
    ("import shutil\nshutil.unpack_archive('/usr/share/x.zip', 'x')", ("system-read", "/usr/share/x.zip")),
    ("import shutil\nshutil.copy('x', dst='/etc/passwd')", ("system-write", "/etc/passwd")),
    ("import shutil\nshutil.make_archive('/usr/x', 'zip', 'x')", ("system-write", "/usr/x")),
    ("import shutil\nshutil.unpack_archive('x.zip', '/usr')", ("system-write", "/usr")),
    ("import shutil\nshutil.copymode('x', '/usr/bin/x')", ("system-write", "/usr/bin/x")),
    ("import shutil\nshutil.move('/etc/passwd', 'x')", ("system-write", "/etc/passwd")),
    ("open('/etc/passwd', mode=input())", ("system-write", "/etc/passwd")),
    ("import os\nos.open('/etc/passwd', os.O_RDWR)", ("system-write", "/etc/passwd")),
    ("import os\nos.remove('/etc/passwd')", ("system-write", "/etc/passwd")),
    ("import shutil\nshutil.copy('x', '/usr/bin/x')", ("system-write", "/usr/bin/x")),
    ("from pathlib import Path\nPath('/etc/x').write_text('')", ("system-write", "/etc/x")),
    ("import shutil\nshutil.rmtree('/')", ("delete-tree", "/")),
    ("from shutil import rmtree as r\nr('/data')", ("delete-tree", "/data")),
    ("call_tool(input())", ("dynamic-tool", "call_tool")),
    ("call_tool('search')", ("tool", "search")),
]


@pytest.mark.parametrize(("source", "expected"), EVASIONS, ids=[source for source, _ in EVASIONS])
def test_it_is_found_however_it_is_written(source: str, expected: tuple[str, str]) -> None:
    assert expected in found(source)


READING = [source for source, (rule, _) in EVASIONS if rule == "system-read"]


@pytest.mark.parametrize("source", READING)
def test_what_is_only_read_is_not_said_to_be_written(source: str) -> None:
    assert "system-write" not in {rule for rule, _ in found(source)}


def test_a_copy_between_two_places_of_the_system_reads_one_and_writes_the_other() -> None:
    assert found("import shutil\nshutil.copy2('/etc/passwd', '/usr/x')") == {
        ("system-read", "/etc/passwd"),
        ("system-write", "/usr/x"),
    }


HARMLESS = [
    "# os.system('x'); eval('1')",
    "'''import os; os.system(1); open('/etc/passwd')'''",
    "text = \"eval('1')\"\nprint(text)",
    "def eval(x): return x\neval('1')",
    "def main(): return compile('x')\ndef compile(x): return x\nmain()",
    "def f(eval): return eval('1')",
    "def f():\n    from ast import literal_eval as eval\n    eval('1')",
    "class A:\n    def system(self, x): pass\nA().system('x')",
    "[eval(1) for eval in [print]]",
    "import re\nre.compile('x')",
    "import os\nos.path.join('a', 'b')\nos.environ.get('HOME')\nos.getcwd()",
    "import subprocess\ntry: pass\nexcept subprocess.CalledProcessError: pass",
    "import requests\ndef f(r: requests.Response) -> None: pass",
    "import requests\nif r.status_code == requests.codes.ok: pass",
    "def main(names: list[str] | None = None): return compile('x')\ndef compile(x): return x\nmain()",
    "'call loop.create_server and {0}'.format(x)",
    "import socket\nprint(socket.AF_INET)",
    "import urllib.parse\nurllib.parse.quote('x')",
    "import yaml\nyaml.safe_load(x)\nyaml.load(x, Loader=yaml.SafeLoader)\nyaml.load(x, yaml.CSafeLoader)",
    "import torch\ntorch.load('x', weights_only=True)",
    "import numpy as np\nnp.load('x.npy')\nnp.load('x.npy', None, False)",
    "open('output/x.csv', 'w')\nopen('/workspace/x')\nopen('/tmp/x', 'w')\nopen('/data/x.csv')\nopen(name)",
    "open('/dev/null', 'w')",
    "from pathlib import Path\nPath('output/x').write_text('')",
    "import shutil\nshutil.rmtree('old')\nshutil.rmtree('/tmp/x')",
    "getattr(thing, 'name', None)",
    "import pickle\npickle.dumps(1)",
    "import ast\nast.literal_eval('1')",
    "import pandas as pd\npd.read_csv('input/a.csv').groupby('a').sum().eval('a + b')",
    "self.__class__.__name__",
    "x = {}\nx['eval'] = 1\nx.get('os')",
]


@pytest.mark.parametrize("source", HARMLESS)
def test_ordinary_code_comments_and_strings_trip_nothing(source: str) -> None:
    assert found(source) == set()


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import os.path as p, json", {"os.path", "json"}),
        ("from a.b import c as d", {"a.b"}),
        ("from . import x\nfrom ..y import z", {".", "..y"}),
        ("from os import *", {"os"}),
        ("__import__('json')", {"json"}),
        ("if 0:\n    def f():\n        import socket", {"socket"}),
    ],
)
def test_imports_are_found_by_module(source: str, modules: set[str]) -> None:
    assert {subject for rule, subject in found(source, imports=True) if rule == "import"} == modules


def test_a_finding_says_where_it_is() -> None:
    source = "import os\nif True:\n    é = 'ü'; os.system('x')\n"
    finding = review(source).findings[-1]
    assert (finding.rule, finding.severity) == ("process", Severity.HIGH)
    assert (finding.line, finding.column, finding.source) == (3, 14, "é = 'ü'; os.system('x')")
    assert "os.system" in finding.message
    assert finding.to_dict()["severity"] == "high"


def test_findings_come_in_the_order_of_the_lines() -> None:
    places = [(f.line, f.column) for f in review("import os\nf(os.system, eval)\nexec('')\nimport sys").findings]
    assert places == sorted(places) and len(places) == 5


def test_every_rule_can_be_met() -> None:
    sources = [source for source, _ in EVASIONS] + ["(", "x = 1\n" * 2**18]
    assert {finding.rule for source in sources for finding in review(source).findings} == set(RULES)


def test_the_strictest_verdict_holds() -> None:
    source = "import os\nos.system('x')\neval('1')"
    assert review("1 + 1").verdict is Verdict.ALLOW
    assert review("import os").verdict is Verdict.ALLOW
    assert review(source).verdict is Verdict.WARN
    assert review(source, Rules({"process": "ask"})).verdict is Verdict.ASK
    assert review(source, Rules({"process": "ask", "code": Verdict.BLOCK})).verdict is Verdict.BLOCK
    assert review(source, Rules(otherwise="allow")).verdict is Verdict.ALLOW


def test_a_program_that_is_indented_as_a_whole_is_read() -> None:
    (finding,) = (f for f in review("    import os\n    os.system('x')\n").findings if f.rule == "process")
    assert (finding.line, finding.column) == (2, 5)
