"""The tool `shell`: the folder and variables that it keeps for its caller, and what comes of its commands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands", reason="the extra actbox[strands] is not installed")

from strands import Agent
from strands.session.file_session_manager import FileSessionManager

from actbox.integrations.strands import (
    StrandsSandbox,
    make_shell,
    python,
    shell,
)
from tests.clock import Clock
from tests.integrations.strands_agents.places import Foreign, agent_of, answers, run_out, sandbox_on, shells, statuses
from tests.integrations.strands_agents.scripted import ScriptedModel


async def commands(sandbox: Any, *lines: str, tool: Any = shell) -> list[dict[str, Any]]:
    """Return what `shell` has answered to one command after the other of one agent."""
    agent = agent_of(*[("shell", {"command": line}) for line in lines], tools=[tool], sandbox=sandbox)
    await agent.invoke_async("go")
    return shells(agent)


@pytest.mark.slow
async def test_cd_and_export_last_for_the_agent_that_did_them_and_for_nobody_else(sandbox: StrandsSandbox) -> None:
    first, second, third, fourth = await commands(
        sandbox,
        "mkdir -p a/b; cd a; export ONE='1 \"x\"\n2' TWO=2; not_exported=3",
        'cd b; printf "%s|%s|%s" "$ONE" "$TWO" "$not_exported"; unset TWO',
        'pwd; echo "[$TWO]"; cd -',
        "pwd",
    )
    assert first["folder"] == "/workspace/a"
    assert second["output"] == '1 "x"\n2|2|'
    assert third["output"] == "/workspace/a/b\n[]\n/workspace/a\n"
    assert (fourth["output"], fourth["folder"]) == ("/workspace/a\n", "/workspace/a")
    (alone,) = await commands(sandbox, 'pwd; echo "[$ONE]"')
    assert alone["output"] == "/workspace\n[]\n"
    assert (await sandbox.execute('pwd; echo "[$ONE]"')).stdout == "/workspace\n[]\n"
    assert {entry.name for entry in await sandbox.list_files()} == {"a", "input", "output"}


@pytest.mark.slow
async def test_a_variable_that_every_fresh_shell_has_can_be_unset_and_set_again(sandbox: StrandsSandbox) -> None:
    say = 'echo "[${HOME-unset}]"'
    said = await commands(sandbox, say, "unset HOME", say, say, "export HOME=/mine", say)
    before = said[0]["output"]
    assert before != "[unset]\n"
    assert [said[place]["output"] for place in (2, 3, 5)] == ["[unset]\n", "[unset]\n", "[/mine]\n"]
    assert (await sandbox.execute(say)).stdout == before


@pytest.mark.slow
async def test_two_agents_of_one_conversation_have_a_shell_each(tmp_path: Path) -> None:
    async with sandbox_on("linux") as sandbox:
        agents = []
        for name in ("one", "other"):
            agent = Agent(
                ScriptedModel(("shell", {"command": "pwd; cd /"}), "done"),
                tools=[shell],
                sandbox=sandbox,
                callback_handler=None,
                agent_id=name,
                session_manager=FileSessionManager(session_id="shared", storage_dir=str(tmp_path)),
            )
            assert agent.session_id == "shared"
            await agent.invoke_async("go")
            agents.append(agent)
        assert [shells(agent)[0]["output"] for agent in agents] == ["/workspace\n", "/workspace\n"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "exit_code"),
    [
        ("cd a; export A=1; false", 1),
        ("cd a; export A=1; exit 7", 7),
        ("cd a; export A=1; (cd /; export A=2; exit 3)", 3),
        ("cd a; export A=1; (exit 4); exit 5", 5),
        ("cd a; export A=1; sh -c 'cd /; exit 6'", 6),
        ("set -e; cd a; export A=1; false; cd /", 1),
        ("set -eu; cd a; export A=1; cd /usr/$nope", 2),
        ("cd a; export A=1; if then", 2),
        ("cd a; export A=1; f() { cd /; return 3; }; (f)", 3),
        ("set -a; cd a; A=1", 0),
        ("set -C -f; IFS=/; cd a; export A=1", 0),
        ("trap 'echo mine' EXIT; cd a; export A=1", 0),
        ("pwd() { echo /nowhere; }; printf() { :; }; cd a; export A=1", 0),
        ("cd a; export A=1; exec >/dev/null 2>&1", 0),
        ("cd a; export A=1; sleep 600 &", 0),
        ("cd a; export A=1 PATH=/nowhere", 0),
        ("cd a; export A=1; cat <<'X'\n$(cd /)\nX", 0),
    ],
)
async def test_state_is_kept_however_a_command_ends(command: str, exit_code: int) -> None:
    async with sandbox_on("linux") as sandbox:
        _, ended, after = await commands(sandbox, "mkdir a", command, 'pwd; echo "[$A]"')
        assert ended["exit_code"] == exit_code
        if "if then" in command:  # it was never begun
            assert after["output"] == "/workspace\n[]\n"
        else:
            assert after["output"] == "/workspace/a\n[1]\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["cd a; kill -9 $$", "cd a; exec true", "trap : EXIT; cd a; exit 1"])
async def test_a_command_that_cannot_tell_its_state_leaves_it_as_it_was_and_says_so(command: str) -> None:
    async with sandbox_on("linux") as sandbox:
        _, ended, after = await commands(sandbox, "mkdir a; export A=1", command, 'pwd; echo "[$A]"')
        assert "as they were before it" in ended["note"]
        assert after["output"] == "/workspace\n[1]\n"
        assert {entry.name for entry in await sandbox.list_files()} == {"a", "input", "output"}


@pytest.mark.slow
async def test_a_folder_that_has_gone_is_told_and_nothing_runs_elsewhere() -> None:
    async with sandbox_on("linux") as sandbox:
        agent = agent_of(
            ("shell", {"command": "mkdir a; cd a; export A=1"}),
            ("python", {"code": "import os; os.rmdir('/workspace/a')"}),
            ("shell", {"command": "touch elsewhere"}),
            ("shell", {"command": 'pwd; ls; echo "[$A]"'}),
            ("shell", {"command": "mkdir b; cd b; rmdir ../b"}),
            tools=[shell, python],
            sandbox=sandbox,
        )
        await agent.invoke_async("go")
        said = answers(agent)
        assert '"exit_code": 126' in said[2]
        assert "the directory /workspace/a has gone: nothing ran" in said[2]
        assert '"output": "/workspace\\ninput\\noutput\\n[1]\\n"' in said[3]
        assert "the directory has gone: the next command starts in /workspace" in said[4]


@pytest.mark.slow
async def test_variables_that_cannot_be_given_again_are_told() -> None:
    async with sandbox_on("linux") as sandbox:
        odd, many, after = await commands(
            sandbox,
            "export ODD=$(printf 'caf\\351') GOOD=1",
            "export BIG=$(head -c 120000 /dev/zero | tr '\\0' x)",
            'echo "[$ODD] [$GOOD] ${#BIG}"',
        )
        assert odd["note"] == "not kept, since it is no UTF-8: ODD"
        assert "more than 100,000 bytes" in many["note"]
        assert after["output"] == "[] [1] 0\n"


async def test_a_command_is_never_spliced_into_another() -> None:
    async with sandbox_on("linux") as sandbox:
        quotes = "echo 'a'\"b\"\\c `echo d` $(echo e)\n# a comment"
        hidden, ends, long, many = await commands(
            sandbox, quotes, "}; echo x; }", f"echo {'x' * 200_000} | wc -c", "cat; echo 'end'\n"
        )
        assert hidden["output"] == "ab\\c d e\n" or hidden["output"] == "abc d e\n"
        assert ends["exit_code"] == 2
        assert long["output"] == "200001\n"
        assert many["output"] == "end\n"


@pytest.mark.slow
async def test_commands_of_one_agent_run_in_turn_and_those_of_two_at_once() -> None:
    async with sandbox_on("linux") as sandbox:
        together = agent_of(
            [("shell", {"command": f"mkdir d{number}; cd d{number}"}) for number in range(4)],
            ("shell", {"command": "pwd"}),
            tools=[shell],
            sandbox=sandbox,
        )
        await together.invoke_async("go")
        folder = shells(together)[-1]["output"].strip().removeprefix("/workspace/")
        assert sorted(folder.split("/")) == ["d0", "d1", "d2", "d3"]
        # Each waits for the other's file: neither ends unless both run.
        wait = "touch {}; until [ -e {} ]; do sleep 0.01; done"
        one = agent_of(("shell", {"command": wait.format("x", "y")}), tools=[shell], sandbox=sandbox)
        other = agent_of(("shell", {"command": wait.format("y", "x")}), tools=[shell], sandbox=sandbox)
        await asyncio.gather(one.invoke_async("go"), other.invoke_async("go"))
        assert [said["exit_code"] for said in shells(one) + shells(other)] == [0, 0]


async def test_output_comes_as_stream_events_while_a_command_runs() -> None:
    async with sandbox_on("linux") as sandbox:
        command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second >&2"
        agent = agent_of(("shell", {"command": command}), tools=[shell], sandbox=sandbox)
        seen = []
        async for event in agent.stream_async("go"):
            if piece := event.get("tool_stream_event"):
                seen.append(piece["data"])
                if piece["data"] == {"stream": "stdout", "text": "first\n"}:
                    await sandbox.write_file("go", b"")
        assert seen[:2] == [{"stream": "stdout", "text": "first\n"}, {"stream": "stderr", "text": "second\n"}]
        assert shells(agent)[0]["output"] == "first\n"


async def test_what_a_model_reads_of_a_command_is_bounded() -> None:
    async with sandbox_on("linux") as sandbox:
        short = make_shell(max_chars=1_000)
        (said,) = await commands(sandbox, "seq 100000; seq 100000 >&2", tool=short)
        for stream in ("output", "error"):
            assert len(said[stream]) <= 1_000
            assert said[stream].startswith("1\n2\n")
            assert said[stream].endswith("99999\n100000\n")
            assert "characters left out" in said[stream]


async def test_a_timeout_has_what_was_printed_and_the_shell_goes_on_as_before(clock: Clock) -> None:
    async with sandbox_on("linux") as sandbox:
        agent = agent_of(
            ("shell", {"command": "mkdir a; cd a"}),
            ("shell", {"command": "echo out; cd /; echo >/workspace/begun; exec sleep 600", "timeout": 30}),
            ("shell", {"command": "pwd"}),
            ("shell", {"command": "pwd", "timeout": 0}),
            ("python", {"code": "1", "timeout": -1}),
            tools=[shell, python],
            sandbox=sandbox,
        )
        await run_out(sandbox, agent.invoke_async("go"), clock.turn, 30)
        assert statuses(agent) == ["success", "error", "success", "error", "error"]
        said = answers(agent)
        assert '{"output": "out\\n", "error": "", "exit_code": 124}' in said[1]
        assert '"output": "/workspace/a\\n"' in said[2]
        assert "timeout must be a number of seconds above zero" in said[3]
        assert "timeout must be a number of seconds above zero" in said[4]


async def test_the_shell_keeps_its_state_in_a_sandbox_that_is_none_of_ours(tmp_path: Any) -> None:
    first, second, third = await commands(
        Foreign(),
        f"cd {tmp_path}; export A='it''s'; echo hi; false",
        'pwd; echo "$A"; exit 3',
        "cd /nowhere/at/all || pwd",
    )
    assert (first["output"], first["exit_code"]) == ("hi\n", 1)
    assert (second["output"], second["exit_code"]) == (f"{tmp_path}\nits\n", 3)
    assert third["output"] == f"{tmp_path}\n"
