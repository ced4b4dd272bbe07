"""Functions and methods that read, write or open the paths that they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .functions import all_of

READS: Final = frozenset(
    [
        *all_of("os", "listdir scandir walk fwalk readlink chdir"),
        *all_of("glob", "glob iglob"),
        *all_of("linecache", "getline getlines"),
        *all_of("fileinput", "input FileInput"),
        *all_of("numpy", "load loadtxt genfromtxt fromfile fromregex memmap DataSource"),
        *all_of("numpy.lib.npyio", "DataSource"),
        *all_of("pandas", "read_csv read_table read_json read_parquet read_excel read_html read_xml read_feather"),
        *all_of("pandas", "read_orc read_stata read_sas read_spss read_hdf read_fwf read_pickle"),
        *all_of("polars", "read_csv read_json read_ndjson read_parquet read_excel scan_csv scan_parquet scan_ndjson"),
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
    ]
)
"""Functions that read whatever path they are given."""

WRITES: Final = frozenset(
    [
        *all_of(
            "os", "remove unlink rmdir removedirs rename renames replace chmod chown lchown mkdir makedirs symlink"
        ),
        *all_of("os", "link truncate mkfifo mknod chroot utime setxattr"),
        *all_of("tempfile", "NamedTemporaryFile TemporaryFile SpooledTemporaryFile TemporaryDirectory mkstemp mkdtemp"),
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
    ]
)
"""Functions that change whatever path they are given, but for those in `SOURCES`."""

SOURCES: Final[Mapping[str, Mapping[str, int]]] = {
    **{f"shutil.{name}": {"src": 0} for name in ("copy", "copy2", "copyfile", "copymode", "copystat", "copytree")},
    "shutil.make_archive": {"root_dir": 2, "base_dir": 3},
    "shutil.unpack_archive": {"filename": 0},
}
"""Of functions that change paths, the arguments that are only read, with their positions."""

OPENS: Final = frozenset(
    f"{module}.{name}"
    for module, name in (
        *(("builtins", "open"), ("os", "open"), ("io", "FileIO"), ("codecs", "open"), ("gzip", "open")),
        *(("bz2", "open"), ("lzma", "open"), ("zipfile", "ZipFile"), ("tarfile", "open"), ("tarfile", "TarFile")),
        *(("gzip", "GzipFile"), ("bz2", "BZ2File"), ("lzma", "LZMAFile"), ("zipfile", "PyZipFile")),
        *(("tarfile", "TarFile.open"), ("wave", "open"), ("aifc", "open"), ("sunau", "open")),
        *(("dbm", "open"), ("dbm.dumb", "open"), ("dbm.gnu", "open"), ("dbm.ndbm", "open"), ("dbm.sqlite3", "open")),
    )
)
"""Functions that read or write, as their mode says."""

PATH_CLASSES: Final = frozenset(
    [*all_of("pathlib", "Path PosixPath PurePath PurePosixPath"), "anyio.Path", "trio.Path"]
)
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

METHOD_WRITES: Final = frozenset(
    [
        *("to_csv", "to_excel", "to_feather", "to_hdf", "to_html", "to_json", "to_latex"),
        *("to_markdown", "to_orc", "to_parquet", "to_pickle", "to_stata", "to_string", "to_xml"),
        *("write_csv", "write_excel", "write_json", "write_parquet", "savefig", "tofile"),
        *("extractall",),
    ]
)
"""Methods of data frames, arrays, figures and archives that write to a path, or to an address."""
