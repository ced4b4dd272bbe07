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
    ("import inspect\ninspect.get_annotations(f, eval_str=True)", "inspect.get_annotations"),
    ("import inspect\ninspect.signature(f, eval_str=1)", "inspect.signature"),
    ("import inspect\ninspect.signature(f, **options)", "inspect.signature"),
    ("import unittest\nunittest.main(module='x')", "unittest.main"),
    ("import unittest\nunittest.defaultTestLoader.loadTestsFromName('os.system')", "loadTestsFromName"),
    ("import sys\nsys.path.insert(0, '/tmp')", "sys.path"),
    ("import sys\nsys.path += ['/tmp']", "sys.path"),
    ("import sys\nsys.path[:0] = ['/tmp']", "sys.path"),
    ("import sys\nsys.path = ['/tmp']", "sys.path"),
    ("from sys import path as p\np.append('/tmp')", "sys.path"),
    ("import sys\nsys.meta_path.append(x)", "sys.meta_path"),
    ("import sys\nsys.path_hooks.insert(0, x)", "sys.path_hooks"),
]

REACHERS = [
    ("'{0.__class__.__init__.__globals__}'.format(x)", "__globals__"),
    ("f = '{a.__subclasses__}'\nf.format_map({'a': int})", "__subclasses__"),
    ("str.format('{0.__globals__[os]}', f)", "__globals__"),
    ("import string\nstring.Formatter().get_field('0.__globals__', (f,), {})", "__globals__"),
    ("import operator\noperator.attrgetter('__init__.__globals__')(x)", "__globals__"),
    ("import operator\noperator.methodcaller('__subclasses__')(object)", "__subclasses__"),
]

RUNNERS = [
    ("import cProfile\ncProfile.Profile().run('x')", "cProfile.Profile().run"),
    ("import profile\nwith profile.Profile() as p: p.runctx('x', {}, {})", "profile.Profile().runctx"),
    ("import pandas as pd\ndf = pd.DataFrame()\ndf.query('@pd.io.common.os.system(1)')", "query"),
    ("df.eval('@__import__(1)')", "eval"),
    ("df.query('a.__class__')", "query"),
    ("df.query(expr='@x [0]')", "query"),
    ("import pandas\ndf.query(input())", "query"),
    ("from pandas import read_csv\nread_csv('a.csv').eval(f'a + {input()}')", "eval"),
    ("loader.exec_module(m)", "exec_module"),
    ("getattr(loader, 'load_module')('x')", "load_module"),
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
    ("import asyncio\nawait asyncio.get_running_loop().subprocess_shell(p, 'x')", "subprocess_shell"),
    ("def f(loop): return loop.subprocess_exec", "subprocess_exec"),
    ("getattr(loop, 'subprocess_shell')", "subprocess_shell"),
    ("import operator\noperator.methodcaller('subprocess_shell', p, 'x')(loop)", "subprocess_shell"),
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
    ("import asyncio\nawait asyncio.get_event_loop().create_connection(p, 'x', 1)", "create_connection"),
    ("import asyncio\nasyncio.AbstractEventLoop.create_server(loop, p)", "create_server"),
    ("await loop.getaddrinfo('x', 1)", "getaddrinfo"),
    ("class A:\n    def f(self): self.loop.create_connection(p)", "create_connection"),
    ("import pandas as pd\npd.read_csv('https://a.example/x.csv')", "pandas.read_csv"),
    ("import pandas as pd\npd.DataFrame().to_json('HTTP://a.example/x')", ".to_json"),
    ("import numpy as np\nnp.DataSource('.').open('http://a.example')", "numpy.DataSource().open"),
    ("import xml.sax\nxml.sax.parse('http://a.example', x)", "xml.sax.parse"),
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
    "import configparser\nconfigparser.ConfigParser().read('/etc/x')",
    "import zipfile\nwith zipfile.ZipFile('a.zip', 'w') as z: z.write('/etc/x')",
    "import tarfile\ntarfile.open('a.tar', 'w').add('/etc/x')",
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
    "import pandas as pd\npd.DataFrame().to_csv('/etc/x')",
    "df.to_parquet(path='/etc/x')",
    "fig.savefig('/etc/x')",
    "archive.extractall('/etc/x')",
    "import xml.etree.ElementTree as e\ne.parse('a.xml').write('/etc/x')",
    "import argparse\nargparse.FileType('w')('/etc/x')",
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
    *(("introspection", *row) for row in REACHERS),
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
    ("unpickle", "import numpy.lib.format as f\nf.read_array(x, True)", "numpy.lib.format.read_array"),
    ("native", "import sqlite3\nc = sqlite3.connect('x')\nc.load_extension('/tmp/x.so')", "load_extension"),
    ("native", "import ctypes.util\nctypes.util.find_library('c')", "ctypes.util.find_library"),
]


@pytest.mark.parametrize(("rule", "source", "subject"), DOORS, ids=[source for _, source, _ in DOORS])
def test_it_is_found_by_its_other_name(rule: str, source: str, subject: str) -> None:
    assert (rule, subject) in found(source)


HARMLESS = [
    "import pandas as pd\ndf = pd.read_csv('a.csv')\ndf.query('a > @limit and b == \"x\"').eval('c = a + b')",
    "session.query(User).filter_by(name='x')\ndb.query(statement)\nmodel.eval()",
    "df.to_csv('output/a.csv')\ndf.to_csv()\nfig.savefig('/workspace/a.png')\ntext = df.to_string()",
    "class A:\n    def create_connection(self): pass\n    def f(self): self.create_connection()",
    "'{0.name} {1[a]} {x.__class__.__name__}'.format(a, b, x=c)\n'mro {}'.format(1)\nformat(1.5, '.2f')",
    "import inspect\ninspect.signature(f).parameters\ninspect.get_annotations(f, eval_str=False)",
    "import sys\nprint(sys.path)\nfor folder in sys.path: print(folder)\nsys.path.index('x')\nsys.argv.append('x')",
    "import operator\nsorted(rows, key=operator.attrgetter('name'))\noperator.methodcaller('strip', chars)('x')",
    "import cProfile\nwith cProfile.Profile() as p: p.runcall(f)\np.print_stats()",
    "import configparser\nc = configparser.ConfigParser()\nc.read('setup.cfg')\nc['a']['b']",
    "import xml.etree.ElementTree as e\nt = e.parse('a.xml')\nt.getroot().iter('b')\nt.write('b.xml')",
    "import asyncio\nloop = asyncio.new_event_loop()\nloop.run_until_complete(main())\nloop.run_in_executor(None, f)",
    "import importlib.util\nif importlib.util.find_spec('numpy') is None: print('no numpy')",
    "import importlib.metadata\nimportlib.metadata.version('numpy')",
    "import multiprocessing\nmultiprocessing.cpu_count()",
    "import logging\nlogging.basicConfig(level=logging.INFO, format='%(message)s')\nlogging.info('x')",
    "import logging\nlogging.FileHandler('output/run.log')",
    "import tempfile\nwith tempfile.TemporaryDirectory() as folder: print(folder)",
    "import sqlite3\nc = sqlite3.connect('data.db')\nc.execute('select 1').fetchall()",
    "import numpy as np\nnp.save('a.npy', np.zeros(3))\nnp.savetxt('output/a.txt', [1])",
    "import skimage.io\nskimage.io.imread('x.png')",
    "import unittest\nclass T(unittest.TestCase): pass\nunittest.main()\nunittest.main(argv=[''], exit=False)",
    "import timeit\nprint(timeit.default_timer())",
]


@pytest.mark.parametrize("source", HARMLESS)
def test_ordinary_use_of_the_same_modules_trips_nothing(source: str) -> None:
    assert found(source) == set()
