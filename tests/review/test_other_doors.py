"""What reaches the system by another door than the usual one is found as well."""

from __future__ import annotations

import pytest

from actbox.review import review


def found(source: str) -> set[tuple[str, str]]:
    return {(f.rule, f.subject) for f in review(source).findings if f.rule != "import"}


RESOLVERS = [
    ("import pydoc\npydoc.locate('os').system('x')", "pydoc.locate"),
    ("from pydoc import resolve\nresolve('os')", "pydoc.resolve"),
    ("import unittest.mock as m\nm._importer('os').system('x')", "unittest.mock._importer"),
    ("from unittest.mock import patch\nwith patch('os.getcwd'): pass", "unittest.mock.patch"),
    ("import logging.config as c\nc._resolve('os.system')('x')", "logging.config._resolve"),
    ("import logging.config\nlogging.config.dictConfig({})", "logging.config.dictConfig"),
    ("import logging.config\nlogging.config.fileConfig('x')", "logging.config.fileConfig"),
    ("import pkgutil\npkgutil.resolve_name('os:system')('x')", "pkgutil.resolve_name"),
    ("import importlib.machinery as m\nm.BuiltinImporter.load_module('posix')", "importlib.machinery.BuiltinImporter"),
    ("import importlib.machinery as m\nm.PathFinder.find_spec('os')", "importlib.machinery.PathFinder"),
    ("import importlib._bootstrap as b\nb._load(1)", "importlib._bootstrap._load"),
    (
        "from importlib.metadata import EntryPoint\nEntryPoint('a', 'os:system', 'b').load()",
        "importlib.metadata.EntryPoint",
    ),
    ("import typing\ntyping.get_type_hints(x)", "typing.get_type_hints"),
    ("import typing\ntyping.ForwardRef('print(1)')._evaluate({}, {}, frozenset())", "typing.ForwardRef"),
]

RUNNERS = [
    ("import cProfile\ncProfile.run('x')", "cProfile.run"),
    ("import bdb\nbdb.Bdb().run('x')", "bdb.Bdb"),
    ("import pdb\npdb.Pdb().run('x')", "pdb.Pdb"),
    ("import trace\ntrace.Trace().run('x')", "trace.Trace"),
    ("from timeit import main as m\nm(['x'])", "timeit.main"),
    ("import doctest\ndoctest.run_docstring_examples('>>> 1', {})", "doctest.run_docstring_examples"),
    ("import doctest\ndoctest.debug_script('x')", "doctest.debug_script"),
    ("import code\ncode.InteractiveInterpreter().runsource('1')", "code.InteractiveInterpreter"),
    ("import rlcompleter\nrlcompleter.Completer().attr_matches('x')", "rlcompleter.Completer"),
    ("import modulefinder\nmodulefinder.ModuleFinder().run_script('x')", "modulefinder.ModuleFinder"),
    ("import site\nsite.addsitedir('/tmp')", "site.addsitedir"),
    ("import sys\nsys.breakpointhook()", "sys.breakpointhook"),
    ("import numpy.testing as t\nt.runstring('x', {})", "numpy.testing.runstring"),
    ("import _interpreters as i\ni.exec(i.create(), 'x')", "_interpreters.exec"),
    ("from concurrent import interpreters\ninterpreters.create().exec('x')", "concurrent.interpreters.create"),
    ("from _interpreters import *\nrun_string(0, 'x')", "_interpreters.run_string"),
    ("from test import support\nsupport.run_in_subinterp('x')", "test.support.run_in_subinterp"),
    ("import asyncio.__main__", "asyncio.__main__"),
]

STARTERS = [
    ("import pip\npip.main(['install', 'x'])", "pip.main"),
    ("from pip._internal.cli.main import main\nmain(['install', 'x'])", "pip._internal.cli.main.main"),
    ("import ensurepip\nensurepip.bootstrap()", "ensurepip.bootstrap"),
    ("import venv\nvenv.create('x', with_pip=True)", "venv.create"),
    ("import setuptools\nsetuptools.setup()", "setuptools.setup"),
    ("import distutils.spawn\ndistutils.spawn.spawn(['x'])", "distutils.spawn"),
    ("import pydoc\npydoc.pipepager('x', 'y')", "pydoc.pipepager"),
    ("import multiprocessing.util as u\nu.spawnv_passfds(b'/bin/sh', [], ())", "multiprocessing.util.spawnv_passfds"),
    ("import multiprocessing.popen_fork as q\nq.Popen(1)", "multiprocessing.popen_fork.Popen"),
    (
        "from multiprocessing.process import BaseProcess\nclass P(BaseProcess): pass",
        "multiprocessing.process.BaseProcess",
    ),
    ("import webbrowser\nwebbrowser.GenericBrowser('x').open('y')", "webbrowser.GenericBrowser"),
    ("import antigravity", "antigravity"),
    ("import imaplib\nimaplib.IMAP4_stream('x')", "imaplib.IMAP4_stream"),
    ("import http.server\nhttp.server.CGIHTTPRequestHandler", "http.server.CGIHTTPRequestHandler"),
    ("import _thread\n_thread.interrupt_main()", "_thread.interrupt_main"),
    ("import os\nos.unshare(1)", "os.unshare"),
]

CALLERS = [
    ("import multiprocessing.connection as c\nc.Client(('x', 1))", "multiprocessing.connection.Client"),
    ("import logging.handlers as h\nh.SocketHandler('x', 1)", "logging.handlers.SocketHandler"),
    ("import logging.handlers as h\nh.HTTPHandler('x', '/')", "logging.handlers.HTTPHandler"),
    ("import urllib.robotparser as r\nr.RobotFileParser('x').read()", "urllib.robotparser.RobotFileParser"),
    ("import ssl\nssl.create_connection(('x', 1))", "socket.create_connection"),
    ("import wsgiref.simple_server as w\nw.make_server('', 1, None)", "wsgiref.simple_server.make_server"),
    ("import asyncio.streams as s\nawait s.open_connection('x', 1)", "asyncio.open_connection"),
    ("from xmlrpc import client\nclient.ServerProxy('x')", "xmlrpc.client.ServerProxy"),
    ("from ftplib import *\nFTP('x')", "ftplib.FTP"),
]

READERS = [
    "import pathlib\npathlib.io.open('/etc/x')",
    "import tokenize\ntokenize.open('/etc/x')",
    "import sqlite3\nsqlite3.dbapi2.connect('/etc/x')",
    "import sqlite3\nsqlite3.Connection('/etc/x')",
    "import filecmp\nfilecmp.cmp('/etc/x', 'y')",
    "import netrc\nnetrc.netrc('/etc/x')",
    "import zipfile\nzipfile.Path('/etc/x')",
    "import tarfile\ntarfile.TarFile.open('/etc/x')",
    "import gzip\ngzip.GzipFile('/etc/x')",
    "import numpy as np\nnp.load('/etc/x')",
    "import pandas as pd\npd.read_html('/etc/x')",
    "import xml.etree.ElementTree as e\ne.parse('/etc/x')",
]

WRITERS = [
    "import gzip\ngzip.GzipFile('/etc/x', 'w')",
    "import bz2\nbz2.BZ2File('/etc/x', 'w')",
    "import lzma\nlzma.LZMAFile('/etc/x', 'w')",
    "import zipfile\nzipfile.PyZipFile('/etc/x', 'w')",
    "import wave\nwave.open('/etc/x', 'w')",
    "import dbm.dumb\ndbm.dumb.open('/etc/x', 'c')",
    "import logging\nlogging.FileHandler('/etc/x')",
    "import logging\nlogging.basicConfig(filename='/etc/x')",
    "import logging.handlers\nlogging.handlers.RotatingFileHandler('/etc/x')",
    "import numpy as np\nnp.save('/etc/x', 1)",
    "import tempfile\ntempfile.NamedTemporaryFile(dir='/etc/x')",
    "import compileall\ncompileall.compile_dir('/etc/x')",
]

DOORS = [
    *(("dynamic", *row) for row in RESOLVERS),
    *(("code", *row) for row in RUNNERS),
    *(("process", *row) for row in STARTERS),
    *(("network", *row) for row in CALLERS),
    *(("system-read", source, "/etc/x") for source in READERS),
    *(("system-write", source, "/etc/x") for source in WRITERS),
    (
        "unpickle",
        "import multiprocessing.reduction as r\nr.ForkingPickler.loads(b'')",
        "multiprocessing.reduction.ForkingPickler",
    ),
    ("native", "import ctypes.util\nctypes.util.find_library('c')", "ctypes.util.find_library"),
]


@pytest.mark.parametrize(("rule", "source", "subject"), DOORS, ids=[source for _, source, _ in DOORS])
def test_it_is_found_by_its_other_name(rule: str, source: str, subject: str) -> None:
    assert (rule, subject) in found(source)


HARMLESS = [
    "import importlib.util\nif importlib.util.find_spec('numpy') is None: print('no numpy')",
    "import importlib.metadata\nimportlib.metadata.version('numpy')",
    "import multiprocessing\nmultiprocessing.cpu_count()",
    "import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\nlogging.info('x')",
    "import logging\nlogging.FileHandler('output/run.log')",
    "import tempfile\nwith tempfile.TemporaryDirectory() as folder: print(folder)",
    "import sqlite3\nc = sqlite3.connect('data.db')\nc.execute('select 1').fetchall()",
    "import numpy as np\nnp.save('a.npy', np.zeros(3))\nnp.savetxt('output/a.txt', [1])",
    "import skimage.io\nskimage.io.imread('x.png')",
    "import unittest\nclass T(unittest.TestCase):\n    def test_x(self): pass\nunittest.main()",
    "import timeit\nprint(timeit.default_timer())",
]


@pytest.mark.parametrize("source", HARMLESS)
def test_ordinary_use_of_the_same_modules_trips_nothing(source: str) -> None:
    assert found(source) == set()
