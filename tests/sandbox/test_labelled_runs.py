"""Labels in sandboxes: results carry what a program could have read, and nothing leaves that is not cleared for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, FileMount, InvalidValue, Policy, Program, Sandbox, Unsupported, tool
from actbox.core.labels import PUBLIC, Label
from tests.conftest import engine_check, with_marks

PII = Label("pii.email")


@tool(label="pii.email")
def load() -> str:
    """Return a person's address."""
    return "ann@example.org"


@tool
def send(text: str) -> str:
    """Send a text to the world."""
    SENT.append(text)
    return "sent"


@tool(cleared="pii")
def store(text: str) -> str:
    """Store a text where personal data may be."""
    SENT.append(text)
    return "stored"


SENT: list[str] = []
ENGINES = with_marks(["linux", "container"])


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


@pytest.fixture(params=ENGINES)
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    found = engine_check(request.param)
    if not found.works:
        pytest.skip(f"the {request.param} engine does not work here: {found.reason}")
    async with actbox.open_sandbox(request.param, policy=Policy(egress_max=Label("public"))) as box:
        yield box


def linux(**policy: Any) -> Sandbox:
    if not engine_check("linux").works:
        pytest.skip("the linux engine does not work here")
    return actbox.open_sandbox("linux", policy=Policy(**policy))


async def ran(box: Any, code: str, tools: Any = (load, send, store), **program: Any) -> ExecutionResult:
    result = await box.run(Program(code, **program), tools=tools)
    assert isinstance(result, ExecutionResult)
    return result


async def test_a_tool_result_gives_the_run_its_label_and_stops_the_next_call(box: Sandbox) -> None:
    result = await ran(box, "send('hello')\naddress = load()\nsend(address)")
    assert SENT == ["hello"]
    assert result.label == PII
    assert result.error is not None
    assert result.error.kind is ErrorKind.TOOL
    assert "data labelled pii.email, and the tool 'send' is cleared up to public" in result.error.message


async def test_a_refused_call_can_be_caught_and_a_cleared_tool_may_be_called(box: Sandbox) -> None:
    code = "text = load()\ntry:\n    send(text)\nexcept ToolError:\n    print('refused')\nstore(text)"
    result = await ran(box, code)
    assert result.error is None
    assert result.stdout == "refused\n"
    assert SENT == ["ann@example.org"]


async def test_the_label_stays_with_the_workspace(box: Sandbox) -> None:
    await ran(box, "open('address', 'w').write(load())")
    assert box.label == PII
    later = await ran(box, "send(open('address').read())")
    command = await box.execute("cat address")
    assert (later.label, command.label) == (PII, PII)
    assert SENT == []


async def test_a_session_and_its_sandbox_share_the_label(box: Sandbox) -> None:
    async with box.session() as session:
        await ran(session, "address = load()")
        assert session.label == box.label == PII
        assert (await ran(session, "send(address)")).error is not None
        assert (await ran(box, "send('x')")).error is not None
    assert SENT == []


async def test_a_labelled_input_counts_from_the_start(box: Sandbox) -> None:
    result = await ran(box, "send(row)", inputs={"row": "ann@example.org"}, label="pii.email")
    assert result.label == PII
    assert result.error is not None
    assert SENT == []


async def test_a_file_that_the_host_writes_with_a_label_raises_it(box: Sandbox) -> None:
    await box.write_file("input/people.csv", b"ann@example.org", label="pii.email")
    assert (await ran(box, "send('x')")).error is not None
    assert SENT == []


async def test_a_program_may_raise_its_label_in_plain_and_in_awaiting_code(box: Sandbox) -> None:
    result = await ran(box, "raise_label('secret.key')\nsend('x')")
    assert result.label == Label("secret.key")
    awaiting = await ran(box, "raise_label('pii.email')\nawait send('x')")
    assert awaiting.label == Label("secret.key")  # it is above `pii.email`
    assert (await ran(box, "raise_label(3)")).error is not None
    assert SENT == []


async def test_a_claim_is_noted_and_changes_no_label(box: Sandbox) -> None:
    code = "load()\nopen('output/a.txt', 'w').write('1')\nopen('output/b.txt', 'w')\nclaim('output/a.txt', 'public')"
    result = await ran(box, code)
    claimed, other = result.artifacts
    assert (claimed.label, claimed.claimed) == (PII, PUBLIC)
    assert (other.label, other.claimed) == (PII, None)
    assert ExecutionResult.from_dict(result.to_dict()).artifacts == result.artifacts


async def test_programs_in_workspaces_of_their_own_have_labels_of_their_own(box: Sandbox) -> None:
    code = "send(load())"
    assert (await box.run_alone(code, tools=[load, send])).label == PII
    clean = await box.run_alone("send('clean')", tools=[load, send])
    assert (clean.label, clean.error) == (PUBLIC, None)
    assert box.label == PUBLIC
    assert SENT == ["clean"]


async def test_an_error_of_a_labelled_tool_counts_as_its_answer(box: Sandbox) -> None:
    @tool(label="pii.email")
    def fail() -> None:
        """Fail with an address."""
        raise ValueError("ann@example.org")

    code = "try:\n    fail()\nexcept ToolError as error:\n    send(str(error))"
    assert (await ran(box, code, [fail, send])).error is not None
    assert SENT == []


async def test_mounts_are_read_from_the_start(tmp_path: Path) -> None:
    async with linux(egress_max="public", mounts=[FileMount(tmp_path, "people", label="pii.email")]) as box:
        result = await ran(box, "send('x')")
    assert result.label == PII
    assert result.error is not None
    assert SENT == []


async def test_a_run_that_could_write_to_an_uncleared_mount_ends_before_it_reads(tmp_path: Path) -> None:
    mount = FileMount(tmp_path, "/data", "rw")
    async with linux(egress_max="public", mounts=[mount]) as box:
        result = await ran(
            box, "open('/data/a', 'w').write('before')\naddress = load()\nopen('/data/b', 'w').write(address)"
        )
        assert result.error is not None
        assert result.error.kind is ErrorKind.POLICY
        assert "/data, which is cleared up to public" in result.error.message
        assert box.label == PUBLIC
        refused = await ran(box, "open('/data/c', 'w')", label="pii.email")
        assert refused.error is not None
        assert (refused.error.kind, refused.exit_code) == (ErrorKind.POLICY, 125)
        with pytest.raises(InvalidValue, match="cleared up to public"):
            await box.write_file("a", b"x", label="pii")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_a_session_that_could_write_to_an_uncleared_mount_ends_too(tmp_path: Path) -> None:
    async with (
        linux(egress_max="public", mounts=[FileMount(tmp_path, "/data", "rw")]) as box,
        box.session() as session,
    ):
        result = await ran(session, "address = load()\nopen('/data/b', 'w').write(address)")
        assert result.error is not None
        assert (result.error.kind, result.state_kept) == (ErrorKind.POLICY, False)


def test_a_policy_whose_own_mounts_may_not_be_together_is_refused(tmp_path: Path) -> None:
    people, out = tmp_path / "people", tmp_path / "out"
    people.mkdir()
    out.mkdir()
    mounts = [FileMount(people, "people", label="pii.email"), FileMount(out, "/out", "rw")]
    with pytest.raises(InvalidValue, match=r"/out, which is cleared up to public; give it cleared='pii.email'"):
        Policy(egress_max="public", mounts=mounts)  # type: ignore[arg-type]
    mounts[1] = FileMount(out, "/out", "rw", cleared="pii.email")
    assert Policy(egress_max="public", mounts=tuple(mounts)).read_label == PII


async def test_forks_and_snapshots_keep_the_label() -> None:
    async with linux(egress_max="public") as box, box.session(forkable=True) as session:
        await ran(session, "address = load()")
        snapshot = await session.snapshot()
        async with snapshot, await snapshot.fork() as copy:
            assert copy.label == PII
            assert (await ran(copy, "send(address)")).error is not None
            await ran(copy, "raise_label('secret.key')")
        assert session.label == Label("secret.key")  # copies share a network and files of their mounts
    assert SENT == []


async def test_without_labels_nothing_is_refused_and_results_say_public() -> None:
    async with linux() as box:
        result = await ran(box, "send(store('x'))")
    assert (result.label, result.error) == (PUBLIC, None)
    assert "label" not in result.to_dict()


async def test_a_stopped_sandbox_begins_without_its_label() -> None:
    box = linux(egress_max="public")
    async with box:
        await ran(box, "load()")
    async with box:
        assert box.label == PUBLIC


async def test_process_carries_labels_and_refuses_to_promise_that_nothing_leaves() -> None:
    with pytest.raises(Unsupported, match="cannot hold back what programs send"):
        actbox.open_sandbox("process", policy=Policy(egress_max="public"), allow_unisolated=True)
    policy = Policy(label="internal")
    async with actbox.open_sandbox("process", policy=policy, allow_unisolated=True) as box:
        assert (await ran(box, "load()")).label == Label("internal+pii.email")


@pytest.mark.parametrize("engine", ["monty", "rtfs"])
async def test_an_engine_without_labels_refuses_them(engine: str) -> None:
    if not engine_check(engine).works:
        pytest.skip(f"the {engine} engine does not work here")
    with pytest.raises(Unsupported, match=f"programs of the {engine} engine carry no labels"):
        actbox.open_sandbox(engine, policy=Policy(egress_max="public"))
    async with actbox.open_sandbox(engine) as box:
        language = box.traits.languages[0]
        with pytest.raises(Unsupported, match="carry no labels"):
            await box.run(Program("1", language, label="pii"))
        with pytest.raises(Unsupported, match="the tool 'load' has one"):
            await box.run(Program("1", language), tools=[load])


async def test_programs_of_node_are_held_back_too() -> None:
    if not engine_check("node").works:
        pytest.skip("the node engine does not work here")
    async with actbox.open_sandbox("node", policy=Policy(egress_max="public")) as box:
        result = await ran(box, "await send('hello'); await send(await load())", language="javascript")
    assert result.label == PII
    assert result.error is not None
    assert SENT == ["hello"]
