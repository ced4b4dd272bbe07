"""Requirements are read as PEP 508 has them; all else is refused in one sentence that names it."""

from __future__ import annotations

import inspect
import sys
import time

import pytest

from actbox import InvalidValue
from actbox.packages import MOST_REQUIREMENTS, parse_requirement, read_requirements, read_requirements_file

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA256 = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("given", "text", "normalized", "extras"),
    [
        ("pandas", "pandas", "pandas", ()),
        ("  Foo.Bar_baz >= 1 ,<2 ", "Foo.Bar_baz<2,>=1", "foo-bar-baz", ()),
        ("requests[Security,socks]==2.32", "requests[Security,socks]==2.32", "requests", ("security", "socks")),
        ("a--b__c..d", "a--b__c..d", "a-b-c-d", ()),
        (f"x @ git+https://h.example/x.git@{COMMIT}", f"x @ git+https://h.example/x.git@{COMMIT}", "x", ()),
        ("x@https://h.example/X-1.0-py3-none-any.whl", "x @ https://h.example/X-1.0-py3-none-any.whl", "x", ()),
        ("x==1.*", "x==1.*", "x", ()),
        ("x===1-odd", "x===1-odd", "x", ()),
    ],
)
def test_a_requirement_is_read_whole(given: str, text: str, normalized: str, extras: tuple[str, ...]) -> None:
    requirement = parse_requirement(given)
    assert (requirement.text, requirement.normalized, requirement.extras) == (text, normalized, extras)
    assert parse_requirement(requirement.text) == requirement


def test_hashes_belong_to_the_requirement_and_not_to_its_text() -> None:
    other = "sha512:" + "b" * 128
    requirement = parse_requirement(f"pandas==2.2 ; os_name != 'x' --hash={SHA256} --hash {other} --hash={SHA256}")
    assert requirement.hashes == (SHA256, other)
    assert requirement.text == 'pandas==2.2; os_name != "x"'


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "is empty"),
        ("git+https://h.example/x", "an address without a name"),
        ("https://h.example/x-1-py3-none-any.whl", "an address without a name"),
        ("file:///tmp/x", "an address without a name"),
        ("./x", "is a path"),
        ("../x[extra]", "is a path"),
        ("/srv/x", "is a path"),
        ("~/x", "is a path"),
        ("C:\\x", "is a path"),
        ("folder/x", "is a path"),
        ("x-1.0-py3-none-any.whl", "is a path"),
        ("name@file:///etc/passwd", "'file'"),
        ("name @ ./x", "'path'"),
        ("name @ http://h.example/x.zip", "'http'"),
        ("name @ git+ssh://git@h.example/x", "'git\\+ssh'"),
        ("name @ git+file:///srv/x", "'git\\+file'"),
        ("name @ hg+https://h.example/x", "'hg\\+https'"),
        ("name @ https://user:secret@h.example/x.zip", "credentials"),
        ("name @ git+https://token@h.example/x", "credentials"),
        ("name @ https:///x.zip", "bad address"),
        ("name @ https://[/x.zip", "bad address"),
        ("name @ https://h.example:99999/x.zip", "bad address"),
        ("name @ https://h.example/${TOKEN}.zip", "bad address"),
        ("name @ git+https://h.example/x@--upload-pack=sh", "option in place of a revision"),
        ("pandas @ https://h.example/keyboard-1.0-py3-none-any.whl", "calls 'keyboard' by the name 'pandas'"),
        ("pandas @ https://h.example/k%65yboard-1.0-py3-none-any.whl", "calls 'keyboard'"),
        ("pandas @ https://h.example/pandas.whl", "file name is wrong"),
        ("pandas @ git+https://h.example/x#egg=keyboard", "calls 'keyboard'"),
        ("-r more.txt", "list that file's requirements"),
        ("-e .", "name a package of the index"),
        ("--index-url https://h.example", r"PackagePolicy\(index=…\)"),
        ("--pre", "admit pre-releases"),
        ("--no-binary=:all:", "is an option"),
        ("pandas --pre", "'--pre'"),
        ("pandas --hash=md5:00", "'--hash=md5:00'"),
        ("pandas --hash=sha256:00", "'--hash=sha256:00'"),
        ("pandas -r x", "'-r x'"),
        ("p\u0430ndas", r"p\\u0430ndas.* ASCII"),
        ("\u212aeras", r"\\u212aeras"),
        ("\uff50andas", r"\\uff50andas"),
        ("pandas\u200b", r"pandas\\u200b.* invisible"),
        ("pan\u202edas", r"pan\\u202edas.* invisible"),
        ("pandas\x00", r"pandas\\x00.*control"),
        ("pandas\n--index-url=https://h.example", "control"),
        ("pandas>=2\t", "control"),
        ("_private", "does not begin with the name"),
        ("==2", "does not begin with the name"),
        ("pandas>=two", "is not a requirement"),
        ("pandas numpy", "is not a requirement"),
        ("pandas; colour == 'red'", "is not a requirement"),
        ("pandas; python_version", "is not a requirement"),
        ("pandas>2,<1", "cannot be met by any one version"),
        ("pandas==1,==2", "cannot be met by any one version"),
        ("p" * 215, "more than 214 characters"),
        ("x; " + "(" * 900, "longer than 500 characters"),
        ("pandas" + ",".join(f"!={n}" for n in range(31)), "more than 30 bounds"),
    ],
)
def test_all_else_is_refused_with_a_reason(given: str, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        parse_requirement(given)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 500
    assert not given or ascii(given)[:5] in message


def test_what_is_no_text_and_no_list_is_refused() -> None:
    with pytest.raises(InvalidValue, match="not int"):
        read_requirements([5])  # type: ignore[list-item]
    with pytest.raises(InvalidValue, match="are a list"):
        read_requirements("pandas")
    with pytest.raises(InvalidValue, match="are a list"):
        read_requirements(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("marker", "applies_on"),
    [
        ("sys_platform == 'win32'", {"win32"}),
        ("sys_platform != 'win32'", {"linux"}),
        ("python_version < '3.0'", set()),
        ("extra == 'all'", set()),
        ("python_full_version >= '3.9' and (sys_platform == 'linux' or os_name == 'odd')", {"linux"}),
    ],
)
def test_requirements_whose_marker_is_false_here_are_left_out(marker: str, applies_on: set[str]) -> None:
    for platform in ("win32", "linux"):
        found = read_requirements([f"pandas; {marker}"], markers={"sys_platform": platform})
        assert len(found) == (platform in applies_on)


def test_a_marker_without_an_answer_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"pandas.* marker without an answer"):
        read_requirements(["pandas; os_name ~= 'posix'"])


def test_pins_conflict_under_every_spelling_and_only_where_both_apply() -> None:
    with pytest.raises(InvalidValue, match=r"'Foo.Bar==1' and 'foo_bar\[x\]==2' cannot be met"):
        read_requirements(["Foo.Bar==1", "foo_bar[x]==2"])
    with pytest.raises(InvalidValue, match="cannot be met"):
        read_requirements(["x @ https://h.example/a.zip", "x @ https://h.example/b.zip"])
    assert len(read_requirements(["x>=1", "x<3", "x!=2", "X>=1", "x>=1"])) == 4
    apart = ["x==1; python_version < '3'", "x==2; python_version >= '3'"]
    assert [str(each) for each in read_requirements(apart)] == ['x==2; python_version >= "3"']


@pytest.mark.parametrize("name", ["json", "Asyncio", "Unittest", "xml"])
def test_a_module_of_the_standard_library_is_no_requirement(name: str) -> None:
    with pytest.raises(InvalidValue, match="standard library: leave it out"):
        read_requirements([name])


def test_the_standard_library_of_another_python_may_be_required_where_it_does_not_apply() -> None:
    assert read_requirements(["dataclasses; python_version < '3.7'"]) == ()


def test_there_is_a_most_of_requirements() -> None:
    assert len(read_requirements(f"p{n}" for n in range(MOST_REQUIREMENTS))) == MOST_REQUIREMENTS
    with pytest.raises(InvalidValue, match="more than 500 requirements; the first too many is 'p500'"):
        read_requirements(f"p{n}" for n in range(10**9))


def test_a_requirements_file_has_comments_continuations_and_hashes() -> None:
    text = f"""\ufeff# what we need
pandas==2.2 \\
    --hash={SHA256} \\
    --hash=sha256:{"b" * 64}
\trequests [socks]>=2 # for the web
x @ https://h.example/x.zip#sha256={"c" * 64}

pywin32; sys_platform == 'win32'
""".replace("\n", "\r\n")
    found = read_requirements_file(text, markers={"sys_platform": "linux"})
    assert [str(each) for each in found] == [
        "pandas==2.2",
        "requests[socks]>=2",
        f"x @ https://h.example/x.zip#sha256={'c' * 64}",
    ]
    assert len(found[0].hashes) == 2


@pytest.mark.parametrize("line", ["-r more.txt", "--index-url https://h.example", "-e git+https://h.example/x#egg=x"])
def test_options_in_a_requirements_file_are_refused(line: str) -> None:
    with pytest.raises(InvalidValue, match="is an option"):
        read_requirements_file(f"pandas\n{line}\n")


def test_a_marker_nested_too_deep_for_the_stack_is_refused() -> None:
    def called_at(depth: int) -> None:
        if depth:
            called_at(depth - 1)
        else:
            parse_requirement("x; " + "(" * 235 + "os_name == 'a'" + ")" * 235)

    with pytest.raises(InvalidValue, match="nested too deep"):
        called_at(sys.getrecursionlimit() - len(inspect.stack()) - 150)


@pytest.mark.slow
@pytest.mark.parametrize(
    "texts",
    [
        ["x" + ",".join(f"!={n}" for n in range(30))] * 500,
        [f"x[{','.join(['e'] * 240)}]"] * 500,
        [f"p{n}; " + " and ".join(["os_name != 'a'"] * 21) for n in range(500)],
        [f"p{n}=={'9' * 490}" for n in range(500)],
        ["x " + " " * 49_000 + "-"] * 500,
        [f"x>={n}" for n in range(500)],
    ],
    ids=["bounds", "extras", "markers", "digits", "spaces", "one name"],
)
def test_the_largest_lists_are_read_in_bounded_time(texts: list[str]) -> None:
    begun = time.process_time()
    try:
        read_requirements(texts)
    except InvalidValue:
        pass
    assert time.process_time() - begun < 10  # a fifth of it here
