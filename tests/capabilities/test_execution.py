"""The capabilities that run code, in real sandboxes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from actbox.capabilities import (
    Approvals,
    Budget,
    Capability,
    Journal,
    Label,
    Outcome,
    Registry,
    StandardRegistry,
    standard_registry,
)
from actbox.codeact import CallbackApprover
from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.limits import Limits
from actbox.core.packages import PackagePolicy
from actbox.core.policy import Policy
from actbox.core.program import Program
from actbox.core.secrets import Secret
from actbox.review import Rules
from actbox.sandbox.opening import open_sandbox

FORMS = Path(__file__).with_name("execution_capabilities.rtfs").read_text()
GRANTED: dict[str, Any] = {"granted": ["compute"], "engine": "linux", "javascript_environment": "host"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StandardRegistry]:
    root = tmp_path_factory.mktemp("roots")
    for name in ("open", "staff"):
        (root / name).mkdir()
        (root / name / "a.txt").write_text(name)
    (root / "open" / "out").symlink_to("/etc/hostname")
    (root / "open" / "staff").symlink_to(root / "staff")
    with (root / "open" / "huge").open("wb") as huge:
        huge.truncate(2**40)
    os.mkfifo(root / "open" / "pipe")
    (root / "secret.txt").write_text("no")
    (root / "named").symlink_to(root / "staff")
    roots = {root / "open": "public", root / "named": "pii.name"}
    async with standard_registry(input_roots=roots, sessions=True, **GRANTED) as opened:
        opened.root = root  # type: ignore[attr-defined]
        yield opened


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def run(registry: StandardRegistry, code: str, **given: Any) -> Outcome:
    return await registry.invoke("ccos.execute.python", {"code": code, **given})


async def test_python_has_inputs_and_returns_files(registry: StandardRegistry) -> None:
    code = """
import sys
print(inputs["a b"], n)
print("warned", file=sys.stderr)
open("output/t.csv", "w").write("1,2")
open("output/t.exe", "w").write("x")
open("output/txt", "w").write("x")
"""
    done = await run(registry, code, inputs={"a b": 1, "n": 2})
    assert done.ok, done.error
    assert done.output == {
        "stdout": "1 2\n",
        "stderr": "warned\n",
        "exit_code": 0,
        "files": {"t.csv": base64.b64encode(b"1,2").decode()},
    }
    assert done.warnings == ("output files of other types were left out: t.exe, txt",)
    assert (done.engine, done.environment) == ("linux", "host")
    assert done.usage["wall_seconds"] > 0 and done.usage["memory_mib"] > 0 and done.usage["steps"] == 1


async def test_the_journal_has_the_policy_of_a_program(tmp_path: Path) -> None:
    key = Secret("service", "hunter2hunter2", ["api.example.com"])
    policy = Policy(domains=[AllowedDomain("api.example.com")], secrets=[key])
    journal = Journal.open(f"sqlite:///{tmp_path}/journal.db")
    with closing(journal):
        async with standard_registry(policy=policy, journal=journal, **GRANTED) as registry:
            assert (await run(registry, "print(1)", max_memory_mb=100)).ok
        *_, ended = [entry async for entry in journal.entries()]
        kept = await journal.blob(ended.body["policy"])
    assert kept is not None and b"hunter2" not in kept
    said = json.loads(kept)
    assert (said["engine"], said["secrets"], said["limits"]["memory_mib"]) == ("linux", ["service"], 100)


async def test_a_program_that_fails_is_an_output(registry: StandardRegistry) -> None:
    done = await run(registry, "raise SystemExit(3)")
    assert done.ok and done.output["exit_code"] == 3
    done = await run(registry, "1 / 0")
    assert done.ok and "division by zero" in done.output["error"] and done.output["exit_code"] == 1
    done = await run(registry, "while True: pass", timeout_ms=300)
    assert done.ok and done.output["error"].startswith("TIMEOUT")


@pytest.mark.parametrize(
    ("given", "step", "why"),
    [
        ({"timeout_ms": 0}, "validate_input", "timeout_ms is above 0"),
        ({"timeout_ms": -1}, "validate_input", "timeout_ms is above 0, not -1"),
        ({"max_memory_mb": -1}, "validate_input", "max_memory_mb is above 0, not -1"),
        ({"more": 1}, "validate_input", "more"),
        ({"image": "no-such-environment"}, "run", "no-such-environment"),
        ({"input_files": {"x": "/etc/hostname"}}, "validate_input", "below none of the directories"),
        ({"input_files": {"x": "ROOT/secret.txt"}}, "validate_input", "below none of the directories"),
        ({"input_files": {"x": "ROOT/open/../secret.txt"}}, "validate_input", "below none of the directories"),
        ({"input_files": {"x": "ROOT/open/out"}}, "validate_input", "cannot be read"),
        ({"input_files": {"x": "ROOT/open/staff/a.txt"}}, "validate_input", "cannot be read"),
        ({"input_files": {"x": "ROOT/open"}}, "validate_input", "cannot be read"),
        ({"input_files": {"x": "ROOT/open/\0"}}, "validate_input", "cannot be read"),
        ({"input_files": {"x": "ROOT/open/huge"}}, "validate_input", "more than 256 MiB"),
        ({"input_files": {"x": "ROOT/open/pipe"}}, "validate_input", "not a regular file"),
        ({"input_files": {"../x": "ROOT/open/a.txt"}}, "validate_input", "must be a path below /input"),
    ],
)
async def test_what_may_not_go_in_is_refused(
    given: dict[str, Any], step: str, why: str, registry: StandardRegistry
) -> None:
    root = str(registry.root)  # type: ignore[attr-defined]
    if "input_files" in given:
        given = {"input_files": {name: path.replace("ROOT", root) for name, path in given["input_files"].items()}}
    done = await run(registry, "print(1)", **given)
    assert done.error is not None and done.error.step == step and why in done.error.message, done.error


async def test_input_files_carry_the_labels_of_their_directories(registry: StandardRegistry) -> None:
    root = registry.root  # type: ignore[attr-defined]
    read = "print(open('input/x').read())"
    done = await run(registry, read, input_files={"x": f"{root}/open/a.txt"})
    assert (done.output["stdout"], done.labels) == ("open\n", Label("public"))
    done = await run(registry, read, input_files={"x": f"{root}/staff/a.txt"})
    assert (done.output["stdout"], done.labels) == ("staff\n", Label("pii.name"))
    done = await run(registry, read, input_files={"x": f"{root}/named/a.txt"})
    assert (done.output["stdout"], done.labels) == ("staff\n", Label("pii.name"))
    missing = await run(registry, read, input_files={"x": f"{root}/staff/no.txt"})
    assert not missing.ok and missing.labels == Label("pii.name")


async def test_programs_with_personal_data_reach_no_host_that_is_not_cleared() -> None:
    policy = Policy(domains=[AllowedDomain("api.example.com")])
    code = "import urllib.request\nprint(urllib.request.urlopen('http://api.example.com').status)"
    async with standard_registry(policy=policy, egress_max="public", rules=None, **GRANTED) as registry:
        done = await registry.invoke("execute.python", {"code": code}, labels="pii.email")
    assert "403" in done.output["error"] and done.labels == Label("pii.email"), done


async def test_a_directory_that_becomes_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a" / "root").mkdir(parents=True)
    (tmp_path / "b" / "root").mkdir(parents=True)
    (tmp_path / "b" / "root" / "x").write_text("secret")
    folder = tmp_path / "a" / "root"
    async with standard_registry(input_roots=[folder], workspace=folder, **GRANTED) as registry:
        (tmp_path / "a").rename(tmp_path / "c")
        (tmp_path / "a").symlink_to("b")
        for id, given in (
            ("execute.python", {"code": "1", "input_files": {"x": f"{folder}/x"}}),
            ("files.read", {"path": "x"}),
        ):
            done = await registry.invoke(id, given)
            assert done.error is not None and "secret" not in str(done), done


async def test_calls_of_a_session_share_variables_labels_and_budget(registry: StandardRegistry) -> None:
    async def call(code: str, caller: str = "ann", **more: Any) -> Outcome:
        given = {"code": code, "session": "s1"}
        return await registry.invoke("execute.python", given, caller=caller, **more)

    first = await call("x = 1", labels="pii.email", budget=Budget(steps=4))
    second = await call("print(x)", budget=Budget(steps=1))
    assert second.output["stdout"] == "1\n" and second.labels == Label("pii.email"), second
    for other in ({"user": "bob"}, {"run": "chat-2"}, {"caller": "bob"}):
        assert "NameError" in (await call("print(x)", **other)).output["error"]
    other = await call("print(x)", caller="bob")
    assert "NameError" in other.output["error"] and other.labels == Label("public")
    await call("open('kept.txt', 'w').write('ann')")
    assert "FileNotFoundError" in (await call("open('kept.txt')", caller="bob")).output["error"]
    assert (await call("print(x)")).ok
    last = await call("print(x)", budget=Budget(steps=9))
    assert first.ok and last.error is not None and last.error.step == "budget"
    changed = await registry.invoke(
        "execute.python", {"code": "x", "session": "s1", "max_memory_mb": 100}, caller="bob"
    )
    assert changed.error is not None and "other limits" in changed.error.message


async def test_a_session_that_has_ended_begins_anew(registry: StandardRegistry) -> None:
    ended = await run(registry, "import os; os._exit(1)", session="s2")
    assert "the session 's2' has ended; a later call begins a new one" in ended.warnings
    assert (await run(registry, "print('new')", session="s2")).output["stdout"] == "new\n"


async def test_sessions_that_nobody_uses_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actbox.capabilities.execution._MOST_SESSIONS", 1)
    async with standard_registry(sessions=True, **GRANTED) as registry:
        assert (await run(registry, "x = 1", session="a")).ok
        refused = await run(registry, "x = 1", session="b")
        assert refused.error is not None and "1 sessions are open" in refused.error.message
        monkeypatch.setattr("actbox.capabilities.execution._IDLE_SECONDS", -1)
        assert (await run(registry, "x = 2", session="b")).ok
        monkeypatch.undo()
        assert "NameError" in (await run(registry, "x", session="a")).output["error"]


async def test_sessions_are_off_unless_allowed() -> None:
    async with standard_registry(**GRANTED) as registry:
        done = await run(registry, "print(1)", session="s")
    assert done.error is not None and "has no sessions" in done.error.message


async def test_javascript_and_rtfs_run_too(registry: StandardRegistry) -> None:
    done = await registry.invoke(
        "execute.javascript",
        {"code": "console.log(inputs.a + b)", "inputs": {"a": 1, "b": 2, "new": 3, "undefined": 4}},
    )
    assert done.ok and done.output == {"stdout": "3\n", "stderr": "", "exit_code": 0} and done.engine == "node", done
    done = await registry.invoke("execute.rtfs", {"expression": "(+ a 2)", "bindings": {"a": 1}})
    assert (done.output, done.engine) == (3, "rtfs"), done
    given = {"expression": "(+ sales-2026 from)", "bindings": {"sales-2026": 1, "from": 2}}
    assert (await registry.invoke("execute.rtfs", given)).output == 3
    done = await registry.invoke("execute.rtfs", {"expression": "(/ 1 0)"})
    assert done.error is not None and (done.error.step, done.error.kind) == ("run", "failed")


async def test_the_worst_case_of_an_input_counts_before_it_runs(registry: StandardRegistry) -> None:
    async def call(budget: Budget, **given: Any) -> Outcome:
        return await registry.invoke("execute.python", {"code": "print(1)", **given}, budget=budget)

    done = await call(Budget(wall_seconds=10))
    assert done.error is not None and "wall_seconds: 30 asked for, 10 of 10 left" in done.error.message
    assert (await call(Budget(wall_seconds=10), timeout_ms=5000)).ok
    for nothing in (
        Budget(cpu_seconds=0),
        Budget(memory_mib=0),
        Budget(storage_mib=99),
        Budget(steps=0),
        Budget(wall_seconds=0),
    ):
        done = await call(nothing)
        assert done.error is not None and done.error.step == "budget", nothing


async def test_a_review_refuses_before_anybody_is_asked() -> None:
    asked: list[str] = []
    approver = CallbackApprover(lambda request: asked.append(request.program) or True)
    rules = Rules({"process": "block", "network": "ask"})
    async with standard_registry(engine="linux", rules=rules, approver=approver) as registry:
        done = await run(registry, "import os\nos.system('ls')")
        assert done.error is not None and "line 2: process: calls os.system" in done.error.message, done.error
        assert not asked
        assert (await run(registry, "print(1)")).ok and asked == ["print(1)"]
    async with standard_registry(rules=rules, approver=approver, **GRANTED) as registry:
        code = "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')"
        assert (await run(registry, code)).ok and asked == ["print(1)", code]


async def test_declared_forms_of_the_specification_run() -> None:
    forms = FORMS[: FORMS.index(";; Delegate")] if ";; Delegate" in FORMS else FORMS
    declared = [one for one in Capability.all_from_rtfs(forms) if one.id.startswith("ccos.execute.")]
    async with standard_registry(declared=declared, **GRANTED) as registry:
        done = await registry.invoke("ccos.execute.python", {"code": "print(1)"})
        assert done.ok and done.engine == "linux" and done.output["stdout"] == "1\n", done.error
        assert registry.find("execute.python").resources.memory_mb == 512
    python = FORMS[: FORMS.index(";; Execute JavaScript")]
    for image in ("clean", "no-such-environment"):
        text = python.replace(":container", f':container :image "{image}"')
        async with standard_registry(declared=text, **GRANTED) as registry:
            done = await registry.invoke("ccos.execute.python", {"code": "print(1)"})
        assert done.environment == "clean" if image == "clean" else done.error is not None, done
    native = FORMS[: FORMS.index(";; Execute JavaScript")].replace(":container", ":native")
    async with standard_registry(declared=native, **GRANTED) as registry:
        done = await registry.invoke("ccos.execute.python", {"code": "print(1)"})
    assert done.error is not None and "allow_unisolated" in done.error.message
    async with standard_registry(declared=native, policy=Policy(), **GRANTED, allow_unisolated=True) as registry:
        done = await registry.invoke("ccos.execute.python", {"code": "print(1)"})
    assert done.ok and done.engine == "process"


async def test_a_program_becomes_a_capability(registry: StandardRegistry) -> None:
    made = Capability.from_program(Program("a + b"), "kit.add", "Add", "[:map [:a :int] [:b :int]]", ":int")
    registry.register(made)
    done = await registry.invoke("kit.add", {"a": 1, "b": 2})
    assert (done.output, done.engine) == (3, "linux"), done.error
    other = Registry()
    other.register(registry)  # its programs have the sandboxes of the first
    done = await other.invoke("kit.add", {"a": 1, "b": 2})
    assert (done.output, done.engine) == (3, "linux"), done.error


async def test_a_program_that_becomes_a_capability_keeps_its_label(registry: StandardRegistry) -> None:
    made = Capability.from_program(Program("a", label="pii.name"), "kit.one", "", "[:map [:a :int]]", ":int")
    async with open_sandbox("linux", policy=Policy(label="internal")) as box:
        other = Capability.from_program(Program("1 // a"), "kit.other", "", "[:map [:a :int]]", ":int", box=box)
        registry.register(made, other)
        done = await registry.invoke("kit.one", {"a": 1}, labels="internal")
        assert (done.output, done.labels) == (1, Label("pii.name+internal")), done.error
        for a in (0, 1):
            done = await registry.invoke("kit.other", {"a": a}, labels="pii.email")
            assert (done.ok, done.labels) == (a == 1, Label("pii.email+internal"))


async def test_no_name_of_a_package_leaves_with_data() -> None:
    packages = PackagePolicy(index="http://127.0.0.1:9/simple")
    async with standard_registry(packages=packages, egress_max="public", sessions=True, **GRANTED) as registry:
        for code, more in (("1", {"dependencies": ["ann"]}), ("# /// script\n# dependencies = ['ann']\n# ///\n", {})):
            given = {"code": code, **more}
            done = await registry.invoke("execute.python", given, labels="pii.name")
            assert done.error is not None and (done.error.kind, done.error.step) == ("refused", "label"), done
        await registry.invoke("execute.python", {"code": "1", "session": "s"}, labels="pii.name")
        done = await registry.invoke("execute.python", {"code": "1", "dependencies": ["ann"], "session": "s"})
        assert done.error is not None and done.error.step == "label", done


async def test_somebody_who_is_asked_about_a_session_sees_what_it_has_read(tmp_path: Path) -> None:
    with closing(Approvals.open(f"sqlite:///{tmp_path}/approvals.db")) as approvals:
        async with standard_registry(approvals=approvals, sessions=True, engine="linux") as registry:
            for label in ("pii.name", "public"):
                given = {"code": "1", "session": "s"}
                asked = asyncio.create_task(registry.invoke("execute.python", given, labels=label))
                while not (waiting := await approvals.list("pending")):
                    await asyncio.sleep(0)
                assert waiting[0].labels == Label("pii.name")
                await approvals.approve(waiting[0].id, by="ann")
                assert (await asked).ok


async def test_the_registrys_policy_bounds_every_program() -> None:
    policy = Policy(limits=Limits(wall_seconds=0.5, memory_mib=200))
    async with standard_registry(policy=policy, **GRANTED) as registry:
        done = await run(registry, "while True: pass")
        assert done.ok and done.output["error"].startswith("TIMEOUT")
        done = await run(registry, "x = bytearray(400 << 20)", max_memory_mb=1000)
        assert done.ok and done.output["exit_code"] != 0 and "MemoryError" in done.output["error"]


async def test_many_at_once_run_in_one_sandbox(registry: StandardRegistry) -> None:
    done = await asyncio.gather(*(run(registry, f"print({n})") for n in range(8)))
    assert [one.output["stdout"] for one in done] == [f"{n}\n" for n in range(8)]


async def test_a_field_called_session_of_another_capability_shares_no_budget() -> None:
    async def echo(call: Any) -> int:
        return 1

    async with standard_registry(sessions=True, **GRANTED) as registry:
        registry.register(Capability("kit.chat", "", "[:map [:session :string]]", ":int", handler=echo))
        for _ in range(2):
            assert (await registry.invoke("kit.chat", {"session": "s"}, budget=Budget(steps=1))).ok


async def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="output_types is a list"):
        standard_registry(output_types="png")
    with pytest.raises(InvalidValue, match="granted is a list"):
        standard_registry(granted="compute")
    with pytest.raises(InvalidValue, match="a registry takes capabilities"):
        standard_registry().register(print)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match=r"budget is a Budget\(…\)"):
        await Registry().invoke("kit.none", {}, budget={"usd": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="no directory"):
        standard_registry(input_roots=[tmp_path / "nothing"])
    with pytest.raises(InvalidValue, match="isolates nothing"):
        standard_registry(engine="process")
    with pytest.raises(InvalidValue, match="no capability"):
        standard_registry(declared='(capability "kit.none" :description "" :input-schema [:map])')


async def test_a_registry_works_without_an_event_loop() -> None:
    await asyncio.to_thread(_use_without_a_loop)


def _use_without_a_loop() -> None:
    registry = standard_registry(**GRANTED)
    try:
        done = registry.invoke_sync("execute.python", {"code": f"print({os.getpid()})"})
        assert done.ok and done.output["stdout"] == f"{os.getpid()}\n"
    finally:
        registry.close_sync()
