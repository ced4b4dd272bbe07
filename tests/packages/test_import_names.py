"""Modules lead to the distributions that bring them, and wheels to the modules that they bring."""

from __future__ import annotations

import pytest

from actbox import InvalidValue
from actbox.core.packages import normalized_name
from actbox.packages import distributions_of, in_standard_library, record_imports, top_level_imports
from actbox.packages.import_names import DISTRIBUTIONS


@pytest.mark.parametrize(
    ("module", "distributions"),
    [
        (
            "cv2",
            (
                "opencv-python-headless",
                "opencv-python",
                "opencv-contrib-python",
                "opencv-contrib-python-headless",
            ),
        ),
        ("yaml", ("pyyaml",)),
        ("PIL", ("pillow",)),
        ("PIL.Image", ("pillow",)),
        ("sklearn.linear_model", ("scikit-learn",)),
        ("bs4", ("beautifulsoup4",)),
        ("google.cloud.storage.blob", ("google-cloud-storage",)),
        ("ruamel.yaml", ("ruamel-yaml",)),
        ("yfinance", ("yfinance",)),
        ("some_thing", ("some-thing",)),
        ("google.maps", ("google-auth", "google-genai")),
        ("_private", ("private",)),
        ("__", ()),
        ("json", ()),
        ("os.path", ()),
        ("_thread", ()),
    ],
)
def test_a_module_leads_to_its_distribution(module: str, distributions: tuple[str, ...]) -> None:
    installed = {"google": ["google-auth", "Google.GenAI", "google-auth"], "json": ["evil"], "yaml": ["evil"]}
    assert distributions_of(module, installed) == distributions


@pytest.mark.slow
def test_this_interpreter_knows_what_it_has() -> None:
    assert distributions_of("xdist") == ("pytest-xdist",)
    assert distributions_of("_pytest") == ("pytest",)


@pytest.mark.parametrize("module", ["", ".", "a-b", "a..b", "./x", "\u0430ttr", "x y", None, "1x"])
def test_what_cannot_be_imported_has_no_distribution(module: str) -> None:
    with pytest.raises(InvalidValue, match="a module has a name"):
        distributions_of(module)


def test_the_table_is_short_and_only_has_names_that_differ() -> None:
    assert len(DISTRIBUTIONS) <= 150
    for module, distribution in DISTRIBUTIONS.items():
        assert distribution == distribution.lower()
        assert "." in module or normalized_name(module) != normalized_name(distribution), module


def test_the_standard_library_is_known_by_its_top_level() -> None:
    assert in_standard_library("json") and in_standard_library("xml.etree") and in_standard_library("_json")
    assert not any(map(in_standard_library, ("pandas", "JSON", "", "jsonx")))


def test_a_wheels_record_says_what_it_lets_one_import() -> None:
    lines = """\
pillow/__init__.py,sha256=abc,10
pillow/sub/data.txt,,
namespace/deep/module.py,,
single.py,,
fast.cpython-313-x86_64-linux-gnu.so,,
compiled.pyc,,
"quoted,name/__init__.py",,
data/file.txt,,
stubs-stubs/__init__.pyi,,
typed/py.typed,,
hook.pth,,
../../../bin/ls.py,,
/abs/olute.py,,
__pycache__/single.cpython-313.pyc,,
x-1.dist-info/METADATA,,
x-1.dist-info/evil.py,,
x-1.data/purelib/json/__init__.py,,
x-1.data/platlib/late.py,,
x-1.data/scripts/run.py,,
x-1.data/data/share/thing.py,,

""".splitlines()
    assert record_imports(lines) == (*("compiled", "fast", "json", "late", "namespace", "pillow", "single"),)


@pytest.mark.parametrize("line", ['"open', '"a"b,,', "x" * 200_000])
def test_a_record_that_is_not_csv_is_refused(line: str) -> None:
    with pytest.raises(InvalidValue, match="RECORD is not CSV"):
        record_imports([line])


def test_a_top_level_file_has_a_name_in_each_line() -> None:
    assert top_level_imports("yaml\n_yaml\r\n\n  \nnot/a/name\n") == ("_yaml", "yaml")
