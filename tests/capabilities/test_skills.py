"""Skills: folders with a `SKILL.md` are found, described, read and run, and nothing in them is trusted."""

from __future__ import annotations

import base64
import gc
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actbox import AllowedDomain, Policy
from actbox.capabilities import Capability, Label, Outcome, Registry, Skills, standard_registry
from actbox.codeact import CallbackApprover
from actbox.core.errors import InvalidValue
from actbox.tools import ApprovalRequest
from tests.conftest import engine_check

FULL = """---
name: pdf
description: >-
  Extracts text from PDF files.
  Use it for PDFs.
license: Apache-2.0
compatibility: Requires Python 3.11
metadata:
  author: ann
  version: 1.10
allowed-tools: Bash(git log:*), Bash(seq 3) Bash(a | b) Bash(python scripts/count.py:*) Read
hooks: [{any: thing}]
---

# How to

Run scripts/count.py.
"""
COUNT = "import sys\nprint(len(sys.stdin.read()), sys.argv[1:])\n"
SHELL = 'echo "$1" > output/said.txt; cat input/a.txt "$(dirname "$0")/../assets/b.txt" >&2; exit 3\n'


def write(folder: Path, text: str = "", /, **files: str | bytes) -> Path:
    """Write a skill; names of files have `__` for a slash, and `_` for a dot before their ending."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text or f"---\nname: {folder.name}\ndescription: About {folder.name}\n---\nDo it.")
    for name, content in files.items():
        path = folder / ".".join(name.replace("__", "/").rsplit("_", 1))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def pdf(folder: Path) -> Path:
    return write(folder / "pdf", FULL, scripts__count_py=COUNT, scripts__say_sh=SHELL, assets__b_txt="own")


def named(made: Iterable[Capability]) -> dict[str, tuple[str, ...]]:
    """Return the approvals of capabilities by their ids."""
    return {one.id: one.approvals for one in made}


# Found and described


def test_a_skill_is_found_and_described(tmp_path: Path) -> None:
    pdf(tmp_path / "some" / "place")
    write(tmp_path / "charts")
    (tmp_path / "README.md").write_text("no skill")
    with Skills.find(tmp_path, label="internal") as skills:
        assert [skill.name for skill in skills] == ["charts", "pdf"]
        found = skills.get("pdf")
        assert found.description == "Extracts text from PDF files. Use it for PDFs."
        assert (found.license, found.compatibility) == ("Apache-2.0", "Requires Python 3.11")
        assert found.metadata == {"author": "ann", "version": "1.10"}
        commands = ("Bash(git log:*)", "Bash(seq 3)", "Bash(a | b)", "Bash(python scripts/count.py:*)")
        assert found.allowed_tools == (*commands, "Read")
        assert found.files == ("SKILL.md", "assets/b.txt", "scripts/count.py", "scripts/say.sh")
        assert (found.path, found.label) == (tmp_path / "some/place/pdf", Label("internal"))
        assert skills.problems == ()


def test_a_folder_that_is_a_skill_itself_is_found(tmp_path: Path) -> None:
    lines = (
        "\ufeff---",
        "name: one",
        "description: Use it when: always, or # not",
        "allowed-tools: [Read, 'Bash(git:*)']",
    )
    write(tmp_path / "other", "\r\n".join([*lines, "---"]))
    with Skills.find(tmp_path / "other") as skills:
        (found,) = skills
        assert (found.name, found.description) == ("one", "Use it when: always, or # not")
        assert (found.allowed_tools, found.read()) == (("Read", "Bash(git:*)"), "")
        (remark,) = skills.problems
        assert str(remark) == f"{tmp_path}/other: its name is one, and should be that of its folder"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# no frontmatter", "does not begin with frontmatter"),
        ("---\nname: bad\n---\n", "description does not have 1 to 1,024"),
        ("---\nname: bad\ndescription: " + "x" * 1025 + "\n---", "description does not have 1 to 1,024"),
        ("---\nname: Bad\ndescription: x\n---", "its name is not up to 64"),
        ("---\nname: a--b\ndescription: x\n---", "its name is not up to 64"),
        ("---\nname: ../x\ndescription: x\n---", "its name is not up to 64"),
        ("---\nname: [bad]\ndescription: x\n---", "its name is no text"),
        ("---\n- bad\n---", "is no mapping"),
        ("---\nname: bad\ndescription: x\nmetadata: [1]\n---", "metadata is not a mapping"),
        ("---\nname: bad\ndescription: x\nallowed-tools: {a: b}\n---", "allowed-tools are neither"),
        (
            "---\nname: bad\ndescription: x\nallowed-tools: " + "a(" * 2_100 + "\n---",
            "allowed-tools have more than 4,096",
        ),
        ("---\nname: bad\ndescription: &a x\nlicense: *a\n---", "has an anchor, alias or tag"),
        ("---\nname: bad\ndescription: !!python/object:os.system x\n---", "has an anchor, alias or tag"),
        ("---\nname: bad\ndescription: x\nmore: 'y\n---", "is not YAML"),
        ("---\nname: bad\ndescription: x\n---" + " " * 300_000, "more than 256 KiB"),
    ],
)
def test_a_bad_skill_is_left_out_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    write(tmp_path / "bad", text)
    write(tmp_path / "good")
    with Skills.find(tmp_path) as skills:
        assert [skill.name for skill in skills] == ["good"]
        (problem,) = skills.problems
        assert problem.path == tmp_path / "bad"
        assert why in problem.why


def test_nothing_outside_of_a_skill_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("---\nname: it\ndescription: x\n---")
    folder = tmp_path / "skills"
    (write(folder / "to-a-file") / "more.md").symlink_to(tmp_path / "secret")
    (write(folder / "to-a-folder") / "more").symlink_to(tmp_path)
    os.mkfifo(write(folder / "waits") / "pipe")
    (write(folder / "linked") / "SKILL.md").unlink()
    (folder / "linked" / "SKILL.md").symlink_to(tmp_path / "secret")
    (folder / "elsewhere").symlink_to(write(tmp_path / "it"))
    deep = write(folder / "deep")
    for _ in range(9):
        deep = deep / "d"
        deep.mkdir()
    monkeypatch.setattr("actbox.capabilities.skill_files.MOST_BYTES", 1_000)
    monkeypatch.setattr("actbox.capabilities.skill_files.MOST_FILES", 12)
    write(folder / "large", large_bin=b"x" * 1_000)
    write(folder / "many", **{f"f{number}_txt": "" for number in range(12)})
    write(folder / "latin", b_txt=b"\xe9")
    (folder / "latin" / "SKILL.md").write_bytes(b"\xe9")
    with Skills.find(folder) as skills:
        why = {problem.path.name: problem.why for problem in skills.problems}
        assert len(skills) == 0
    assert why.pop("linked").startswith("it cannot be read")
    assert why == {
        "deep": "d/d/d/d/d/d/d/d is nested more than 8 deep",
        "large": "its files have more than 0 MiB",
        "latin": "SKILL.md is no UTF-8 text",
        "many": "it has more than 12 files",
        "to-a-file": "more.md is neither a file nor a folder; a skill has no links",
        "to-a-folder": "more is neither a file nor a folder; a skill has no links",
        "waits": "pipe is neither a file nor a folder; a skill has no links",
    }


def test_the_first_of_two_skills_of_one_name_counts(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a" / "one"), write(tmp_path / "b" / "one")
    write(first / "inner")  # belongs to the skill around it
    write(tmp_path / "c" / "node_modules" / "two")
    with Skills.find(first.parent, second.parent, tmp_path / "c") as skills:
        assert [skill.path for skill in skills] == [first]
        assert [str(problem) for problem in skills.problems] == [f"{second}: {first} has the name one already"]
    write(tmp_path / "deep" / "b" / "c" / "d" / "e" / "f" / "three")
    with Skills.find(tmp_path / "deep") as skills:
        (problem,) = skills.problems
        assert problem.why == "folders more than 5 deep in it, or beyond 2,000, were not searched"
    with pytest.raises(InvalidValue, match="cannot be read: No such file"):
        Skills.find(tmp_path / "none")


# Read


def test_texts_of_a_skill_are_read_as_they_were_found(tmp_path: Path) -> None:
    folder = pdf(tmp_path)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    with Skills.find(tmp_path) as skills:
        (folder / "scripts" / "count.py").write_text("something else")
        assert skills.read("pdf") == "# How to\n\nRun scripts/count.py."
        assert skills.read("pdf", "scripts/count.py") == skills.read("pdf", "./scripts/../scripts/count.py") == COUNT
        for path in ("../pdf/SKILL.md", "/etc/passwd", "scripts", "none.md"):
            with pytest.raises(InvalidValue, match="has no file"):
                skills.read("pdf", path)
        with pytest.raises(InvalidValue, match="no UTF-8"):
            skills.read("pdf", "picture.png")
        with pytest.raises(InvalidValue, match="there is no skill 'pfd'; there are pdf"):
            skills.read("pfd")
        with Skills.find(tmp_path) as again:
            assert again.get("pdf").digest != skills.get("pdf").digest
    assert not skills.get("pdf").copy.exists()
    with pytest.raises(InvalidValue, match="was closed"):
        skills.read("pdf")


def test_a_copy_lasts_as_long_as_a_capability_of_it(tmp_path: Path) -> None:
    pdf(tmp_path)
    made = Skills.find(tmp_path).capabilities()
    gc.collect()
    copies = Path(tempfile.gettempdir())
    assert [path.name for path in copies.glob("actbox-skills-*/*")] == ["pdf"]
    del made
    gc.collect()
    assert not [*copies.glob("actbox-skills-*")]


# As capabilities


def test_unknown_scripts_and_commands_ask(tmp_path: Path) -> None:
    pdf(tmp_path)
    write(tmp_path / "words")
    with Skills.find(tmp_path) as skills:
        asks = ("skill",)
        assert named(skills.capabilities()) == {
            "skills.pdf.read": (),
            "skills.pdf.count": asks,
            "skills.pdf.say": asks,
            "skills.pdf.git": asks,
            "skills.pdf.seq": asks,
            "skills.pdf.command": asks,
            "skills.words.read": (),
        }
        some = named(skills.capabilities(approved=["pdf.count", "pdf.git"]))
        assert [id for id, approvals in some.items() if approvals] == [
            f"skills.pdf.{n}" for n in ("say", "seq", "command")
        ]
        assert [id for id, approvals in named(skills.capabilities(approved=["pdf"])).items() if approvals] == [
            "skills.pdf.command"
        ]
        for name in ("pfd", "pdf.read", "pdf.command", "pdf.*"):
            with pytest.raises(InvalidValue, match="there is no skill, script or named program"):
                skills.capabilities(approved=[name])


def test_an_interpreter_asks_though_its_skill_is_approved(tmp_path: Path) -> None:
    tools = (
        "Bash(bash:*) Bash(/usr/bin/python3.12 -c *) Bash(python input/a.py) Bash(env:*) Bash(seq 3) Bash(findent:*)"
    )
    text = f"---\nname: kit\ndescription: x\nallowed-tools: {tools}\n---\n"
    with Skills.find(write(tmp_path / "kit", text, scripts__say_sh=SHELL)) as skills:
        asking = {id for id, approvals in named(skills.capabilities(approved=["kit"])).items() if approvals}
        also = {id for id, approvals in named(skills.capabilities(approved=["kit", "kit.bash"])).items() if approvals}
    assert asking == {f"skills.kit.{name}" for name in ("bash", "_usr_bin_python3_12", "python", "env", "command")}
    assert asking - also == {"skills.kit.bash"}


def test_names_of_scripts_differ(tmp_path: Path) -> None:
    names = ("read.py", "Go Fast!.py", "go.py", "go.sh", "__init__.py", "data.txt")
    folder = write(tmp_path / "kit", "---\nname: kit\ndescription: x\nallowed-tools: Bash(go:*) Bash(*) Write\n---")
    (folder / "scripts").mkdir()
    for name in names:
        (folder / "scripts" / name).write_text("")
    with Skills.find(tmp_path) as skills:
        ids = [one.id.removeprefix("skills.kit.") for one in skills.capabilities()]
        assert ids == ["read", "go_fast_", "go", "go_sh", "read_py", "go_2", "command"]


async def test_a_model_reads_a_skill(tmp_path: Path) -> None:
    pdf(tmp_path)
    with Skills.find(tmp_path, label="internal") as skills:
        registry = Registry(skills.capabilities(approved=["pdf"]))
        description = registry.describe("skills.pdf.read")["description"]
        assert description.endswith("In the skill's own words: Extracts text from PDF files. Use it for PDFs.")
        done = await registry.invoke("skills.pdf.read", {})
        assert (done.output["text"], done.output["folder"]) == ("# How to\n\nRun scripts/count.py.", "/skills/pdf")
        assert done.output["files"] == [*skills.get("pdf").files]
        assert done.output["commands"]["skills.pdf.count"] == "Run scripts/count.py of the skill pdf"
        assert done.labels == Label("internal")
        assert (await registry.invoke("skills.pdf.read", {"path": "assets/b.txt"})).output == {"text": "own"}
        wrong = await registry.invoke("skills.pdf.read", {"path": "../x"})
        assert wrong.error is not None and (wrong.error.kind, wrong.error.step) == ("invalid", "validate_input")
        nowhere = await registry.invoke("skills.pdf.count", {})
        assert nowhere.error is not None and "take standard_registry" in nowhere.error.message


# Run


def output(outcome: Outcome) -> dict[str, Any]:
    assert outcome.ok, outcome.error
    done: dict[str, Any] = outcome.output
    return done


def engine(name: str) -> None:
    if not (found := engine_check(name)).works:
        pytest.skip(f"the {name} engine does not work here: {found.reason}")


@pytest.mark.slow
async def test_scripts_run_in_the_sandbox(tmp_path: Path) -> None:
    engine("linux")
    folder = pdf(tmp_path)
    (folder / "scripts" / "spoil.py").write_text("open(__file__, 'a')")
    with Skills.find(tmp_path) as skills:
        async with standard_registry() as registry:
            registry.register(*skills.capabilities(approved=["pdf"]))
            counted = output(await registry.invoke("skills.pdf.count", {"args": ["-a", "b c"], "stdin": "1234"}))
            assert counted == {"stdout": "4 ['-a', 'b c']\n", "stderr": "", "exit_code": 0}
            given = {"args": ["hi"], "files": {"a.txt": base64.b64encode(b"given ").decode()}}
            said = output(await registry.invoke("skills.pdf.say", given))
            assert (said["exit_code"], said["stderr"]) == (3, "given own")
            assert said["files"] == {"said.txt": base64.b64encode(b"hi\n").decode()}
            spoiled = output(await registry.invoke("skills.pdf.spoil", {}))
            assert "Read-only file system" in spoiled["stderr"]
            assert output(await registry.invoke("skills.pdf.seq", {}))["stdout"] == "1\n2\n3\n"
            for wrong in ({"files": {"a": "?"}}, {"files": {"../a": ""}}, {"timeout_ms": 0}, {"more": 1}):
                failed = await registry.invoke("skills.pdf.count", wrong)
                assert failed.error is not None and failed.error.step == "validate_input", failed
            more = await registry.invoke("skills.pdf.seq", {"args": ["5"]})
            assert more.error is not None and more.error.step == "validate_input"
            skills.close()
            closed = await registry.invoke("skills.pdf.seq", {})
            assert closed.error is not None and closed.error.step == "run", closed


@pytest.mark.slow
async def test_what_a_skill_knows_reaches_no_host_that_is_not_cleared_for_it(tmp_path: Path) -> None:
    engine("linux")
    send = """import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen("http://allowed.test/" + open(sys.argv[1]).read())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
    write(tmp_path / "staff", scripts__send_py=send, names_txt="ann")
    policy = Policy(egress_max="public", domains=(AllowedDomain("allowed.test"),))
    with Skills.find(tmp_path, label="pii.name") as skills:
        async with standard_registry(policy=policy) as registry:
            registry.register(*skills.capabilities(approved=["staff"]))
            done = await registry.invoke("skills.staff.send", {"args": ["/skills/staff/names.txt"]})
    told = output(done)["stdout"]
    assert told.startswith("403") and "labelled pii.name" in told and done.labels == Label("pii.name")


@pytest.mark.slow
async def test_a_command_runs_once_somebody_has_seen_it(tmp_path: Path) -> None:
    engine("linux")
    pdf(tmp_path)
    seen: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> bool:
        seen.append(request)
        return request.tool != "skills.pdf.count"

    with Skills.find(tmp_path) as skills:
        async with standard_registry(approver=CallbackApprover(decide)) as registry:
            registry.register(*skills.capabilities())
            line = "cd /skills/pdf && python scripts/count.py x < assets/b.txt; no-such-program"
            done = output(await registry.invoke("skills.pdf.command", {"command": line}))
            assert (done["stdout"], done["exit_code"]) == ("3 ['x']\n", 127)
            refused = await registry.invoke("skills.pdf.count", {})
            assert refused.error is not None and refused.error.step == "approval"
            missing = output(await registry.invoke("skills.pdf.git", {"args": ["--x"]}))
    assert [request.program for request in seen] == [line, COUNT, "git log"]
    assert missing["exit_code"] in (127, 128, 129)


@pytest.mark.slow
async def test_a_script_in_javascript_runs(tmp_path: Path) -> None:
    engine("node")
    source = "process.stdin.on('data', d => console.log(process.argv[2] + d)).on('end', () => process.exit(5))"
    write(tmp_path / "js", scripts__say_js=source)
    with Skills.find(tmp_path) as skills:
        async with standard_registry() as registry:
            registry.register(*skills.capabilities(approved=["js"]))
            done = output(await registry.invoke("skills.js.say", {"args": ["a"], "stdin": "b"}))
    assert (done["stdout"], done["exit_code"]) == ("ab\n", 5)
