"""A program that misses a package begins again with it, if the policy approves it and nothing has happened yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import actbox
from actbox import Completed, ErrorKind, Output, Program, RunRestarted
from actbox.codeact import CallbackApprover

from .index_server import IndexServer
from .kits import policy_of, run

pytestmark = pytest.mark.slow

CODE = "import kit_greeting\nkit_greeting.greeting"


async def test_a_program_gets_each_approved_package_that_it_misses(index: IndexServer) -> None:
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-trojan-free", "kit_words"], blocked=[])
    result = await run(policy, "import kit_words\nimport kit_greeting\nkit_words.word + kit_greeting.greeting")
    assert result.value == "hellohello", result
    [said] = [warning for warning in result.warnings if "begun again" in warning]
    assert said.startswith("the program missed kit-words, kit-greeting, and was begun again")


async def test_events_say_so_and_the_first_attempt_shows_nothing(index: IndexServer) -> None:
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        events = [event async for event in box.stream(CODE + "\nprint(kit_greeting.greeting)")]
    assert [event.package for event in events if isinstance(event, RunRestarted)] == ["kit-greeting"]
    assert "".join(event.text for event in events if isinstance(event, Output)) == "hello\n"
    assert isinstance(events[-1], Completed) and events[-1].result.success


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("note()", "it has called tools (note):"),
        ("open('/workspace/x', 'w').close()", "it may have written files"),
        ("open('/output/x', 'w').close()", "it may have written files (/output/x):"),
    ],
    ids=["tool", "file", "output"],
)
async def test_a_program_that_has_had_an_effect_is_told_what_to_send(before: str, why: str, index: IndexServer) -> None:
    calls: list[int] = []

    def note() -> None:
        calls.append(1)

    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        result = await box.run(f"{before}\n{CODE}", tools=[note])
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert result.error.hint.startswith(f"kit-greeting can be had, but the program was not begun again, because {why}")
    assert "'kit-greeting' in `dependencies`, or in a script block" in result.error.hint
    assert calls == [1] * (before == "note()")


async def test_output_that_somebody_has_seen_is_an_effect_and_unseen_output_none(index: IndexServer) -> None:
    code = f"print('begun', flush=True)\n{CODE}"
    assert (await run(policy_of(index), code)).stdout == "begun\n"
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        events = [event async for event in box.stream(code)]
    assert isinstance(events[-1], Completed)
    error = events[-1].result.error
    assert error is not None and "because output was shown" in error.hint


async def test_a_program_whose_package_cannot_be_had_is_not_said_to_have_begun_again(index: IndexServer) -> None:
    result = await run(policy_of(index, auto_approved=["kit-nowhere"]), "import kit_nowhere")
    assert result.error is not None and "kit-nowhere cannot be had" in result.error.message
    assert not any("begun again" in warning for warning in result.warnings)


@pytest.mark.parametrize("is_session", [False, True], ids=["run", "session"])
@pytest.mark.parametrize(
    ("module", "kind", "message", "hint"),
    [
        ("kit_forbidden", ErrorKind.POLICY, "kit-forbidden is blocked by the policy: no", "PackageRules(blocked=…)"),
        ("kit_asks", ErrorKind.POLICY, "kit-asks needs an approval that nobody has given: ", "approver=…"),
        ("kit_words", ErrorKind.MISSING_DEPENDENCY, "No module named 'kit_words'", "no rule for kit-words"),
    ],
)
async def test_a_missing_module_that_the_policy_does_not_admit_says_why(
    module: str, kind: ErrorKind, message: str, hint: str, is_session: bool, index: IndexServer
) -> None:
    policy = policy_of(index, blocked={"kit-forbidden": "no"}, requires_approval=["kit_asks"])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        result = await (box.session() if is_session else box).run(f"1\nimport {module}")
    assert result.error is not None
    assert (result.error.kind, result.error.line) == (kind, 2)
    assert result.error.message.startswith(message) and hint in result.error.hint, result.error
    assert result.error.message in result.error.traceback
    assert index.requests.total() == 0


@pytest.mark.parametrize("approved", [True, False])
async def test_somebody_is_asked_about_a_missing_package_that_requires_approval(
    approved: bool, index: IndexServer
) -> None:
    asked: list[Any] = []

    def decide(request: Any) -> bool:
        asked.append(request)
        return approved

    policy = policy_of(index, CallbackApprover(decide), auto_approved=[], requires_approval=["kit-greeting"])
    result = await run(policy, CODE)
    assert [request.packages[0].name for request in asked] == ["kit-greeting"]
    assert (result.value, result.error and result.error.type) == (
        ("hello", None) if approved else (None, "PackageNotApproved")
    )


async def test_a_program_that_lies_about_what_it_misses_gets_no_more_than_the_policy_approves(
    index: IndexServer,
) -> None:
    code = (
        "import itertools\nfor name in itertools.count(): raise ModuleNotFoundError(\"No module named 'kit_greeting'\")"
    )
    async with actbox.open_sandbox("linux", policy=policy_of(index)) as box:
        result = await box.run(Program(code))
    assert not result.success
    assert [one.name for one in result.distributions] in ([], ["kit-greeting", "kit-words"])


@pytest.mark.parametrize("is_session", [False, True], ids=["run", "session"])
async def test_what_a_program_with_a_label_misses_is_asked_of_no_index(is_session: bool, index: IndexServer) -> None:
    policy = replace(policy_of(index), egress_max="public", label="pii.email")
    index.requests.clear()
    async with actbox.open_sandbox("linux", policy=policy) as box:
        place = box.session() if is_session else box
        result = await place.run(
            "try:\n    import kit_greeting\nexcept ImportError as error:\n    print(error)\n    raise"
        )
    assert result.error is not None
    assert result.stdout
    assert not index.requests
