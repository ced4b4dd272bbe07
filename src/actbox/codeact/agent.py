"""`CodeAgent`: an agent loop over a chat model and a sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from actbox.content.render import render
from actbox.core.call_log import CallLog
from actbox.core.errors import InvalidValue
from actbox.core.events import Completed, Event, ToolFinished, ToolStarted
from actbox.core.policy import Policy
from actbox.core.result import Artifact, ExecutionResult
from actbox.sandbox.contract import Sandbox
from actbox.tools import Approval, Approver, Tool, Toolset

from .approvals import ApprovalStyle
from .approvers import Callback
from .arguments import Sent
from .final_answer import FINAL_ANSWER, FinalAnswer
from .instructions import agent_instructions, execute_code_spec
from .loop import Ask, End, Loop, Run, Stopped
from .model import ChatModel, TokenUsage
from .named_model import named_model
from .package_instructions import packages_of
from .supervision import Supervision
from .withholding import may_read, sentence_for_model

if TYPE_CHECKING:
    from actbox.review import Rules

MAX_TURNS = 12


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The event that the model is being asked. `turn` counts from 1."""

    turn: int


@dataclass(frozen=True, slots=True)
class ModelSpoke:
    """The event of a model's answer: its text, including programs in fenced blocks."""

    text: str


@dataclass(frozen=True, slots=True)
class CodeStarted:
    """The event that a program of the model is about to run."""

    code: str


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of the running program, as the sandbox's own `stream` yields it.

    Events from before the run are included: that approval is requested, and the decision.
    """

    event: Event


@dataclass(frozen=True, slots=True)
class CodeFinished:
    """The event that the program has ended."""

    result: ExecutionResult


@dataclass(frozen=True, slots=True)
class Answered:
    """The last event: the agent's outcome."""

    outcome: AgentOutcome


AgentEvent = TurnStarted | ModelSpoke | CodeStarted | RunEvent | CodeFinished | Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUsage:
    """The cost of an answer. `tokens` are as the provider counts them, zero if it does not."""

    tokens: TokenUsage = field(default_factory=TokenUsage)
    model_calls: int = 0
    runs: int = 0
    tool_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOutcome:
    """The outcome of an agent: its answer, its files, and why it stopped.

    `answer` is the value that the program gave `final_answer`, or the model's text if it answered in words, or `None`
    if it ran out of turns; `stopped` says which. `artifacts` are the files of all runs, the last of each name.
    """

    answer: Any
    stopped: Stopped
    results: tuple[ExecutionResult, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    usage: AgentUsage = field(default_factory=AgentUsage)


class CodeAgent:
    """Answers questions by letting a model write programs and running them in a sandbox.

    `model` is a `ChatModel`, or the name of one as `PROVIDER:MODEL` (extra `actbox[models]`): `openai:…` for OpenAI's
    Responses, `openai-chat:…` for Chat Completions, `anthropic:…`, `google:…`, or any provider that Pydantic AI knows.
    `base_url` is the address of another server than the provider's own, such as vLLM or Ollama. Most of them serve Chat
    Completions: `CodeAgent("openai-chat:qwen3", box, base_url="http://127.0.0.1:11434/v1")`. The key comes from the
    provider's environment variable, such as `OPENAI_API_KEY`. The connections of a model given by name last for one
    question; those of a `ChatModel` belong to the caller.

    `tools` are the functions that programs may call; `guidance` is put before the instructions. The sandbox must be
    running, and still belongs to the caller. An agent keeps nothing from one question to the next.

    In place of a result whose label is above what a model may read by the policy (`Policy.model_cleared`), the model
    reads a sentence. Answers and results of the outcome are whole.

    If the sandbox's policy has rules for packages (`Policy.packages`), the instructions say how a program asks for one,
    and `execute_code` takes `dependencies`. `approver` is asked about packages unless the rules have one of their own.

    `approval` is the mode of every run, which tools that require approval can only tighten; `approval_style` says when
    a person is asked (`ApprovalStyle`), and `approver` who: an `Approver`, or a function of a request. A program
    without approval does not run, and the model reads why.

    `review` has the rules by which each program is reviewed before it runs (`actbox.review`). A blocked program does
    not run, and the model reads the findings. Rules that ask are put to `approver`, in one request with everything else
    that needs approval; warnings go into the result. The agent's own `final_answer` counts only if the rules name
    `tool:final_answer`. This is advice on top of isolation, never instead of it: a program can be written so that no
    review tells what it does, and then only the sandbox protects.
    """

    def __init__(
        self,
        model: ChatModel | str,
        sandbox: Sandbox,
        *,
        base_url: str | None = None,
        tools: Toolset | Iterable[Tool | Callable[..., Any]] | None = None,
        max_turns: int = MAX_TURNS,
        timeout: float | None = None,
        guidance: str = "",
        approval: Approval = "never_require",
        approval_style: ApprovalStyle = "bundled",
        approver: Approver | Callback | None = None,
        review: Rules | None = None,
    ) -> None:
        """`timeout` is in seconds and for each program. Without `review` no program is reviewed.

        Raises `InvalidValue`, also if approval could be required and there is no approver, and `ActboxError` if a model
        given by name lacks a package or a key.
        """
        given: object = sandbox
        if not isinstance(given, Sandbox):
            kind = type(given).__name__
            raise InvalidValue(f"an agent's programs run in a sandbox, such as open_sandbox() makes, not in a {kind}")
        if max_turns < 1:
            raise InvalidValue(f"max_turns must be at least 1, not {max_turns}")
        self._model: ChatModel
        self._connections: AbstractAsyncContextManager[object] = nullcontext()
        if isinstance(model, str):
            self._model = self._connections = named_model(model, base_url=base_url)
        elif base_url is None:
            self._model = model
        else:
            raise InvalidValue("base_url is for a model given by name; a ChatModel has an address of its own")
        self._sandbox = sandbox
        self._supervision = Supervision.of(
            tools, review=review, approval=approval, style=approval_style, approver=approver
        )
        self._max_turns = max_turns
        self._timeout = timeout
        self._guidance = guidance

    async def run(self, question: str) -> AgentOutcome:
        """Return the agent's outcome. An exception of the model is raised here."""
        async with aclosing(self.stream(question)) as events:
            async for event in events:
                if isinstance(event, Answered):
                    return event.outcome
        raise AssertionError("an agent's stream ended without Answered")

    async def stream(self, question: str) -> AsyncGenerator[AgentEvent]:
        """Yield events as they happen; the last one is `Answered`. Closing the generator ends the running program."""
        async with self._connections, aclosing(self._answer(question)) as events:
            async for event in events:
                yield event

    async def _answer(self, question: str) -> AsyncGenerator[AgentEvent]:
        final = FinalAnswer(cleared="secret")  # it goes to whoever has asked, whatever its label
        policy = getattr(self._sandbox, "policy", None)
        cleared = policy.model_clearance if isinstance(policy, Policy) else None
        toolset = self._supervision.tools.with_tools(final.tool)
        packages = packages_of(self._sandbox)
        text = agent_instructions(
            toolset, network=self._sandbox.traits.network, extra=self._guidance, packages=packages
        )
        loop = Loop(question, text, self._max_turns, packages=packages is not None)
        tokens, model_calls = TokenUsage(), 0
        results: list[ExecutionResult] = []
        action = loop.begin()
        while not isinstance(action, End):
            if isinstance(action, Ask):
                yield TurnStarted(action.turn)
                reply = await self._model.complete(action.messages, [execute_code_spec(packages=packages is not None)])
                tokens, model_calls = tokens + reply.usage, model_calls + 1
                if reply.text:
                    yield ModelSpoke(reply.text)
                action = loop.on_reply(reply)
                continue
            yield CodeStarted(action.code)
            final.given = False
            calls = CallLog()
            async with aclosing(self._run(action, toolset)) as events:
                async for event in events:
                    if isinstance(event, Completed):
                        results.append(event.result)
                        continue
                    if not (isinstance(event, ToolStarted | ToolFinished) and event.tool == FINAL_ANSWER):
                        calls.feed(event)  # the answer of a failed program does not count and must be repeated
                    yield RunEvent(event)
            yield CodeFinished(results[-1])
            shown = final.warn(results[-1], action.code)
            if not may_read(results[-1], cleared):
                shown, calls = sentence_for_model(results[-1], cleared), CallLog()
            seen, answered = render(shown, program=action.code, calls=calls), final.given and results[-1].success
            action = loop.on_observation(seen, answered=answered, answer=final.value)
        usage = AgentUsage(
            tokens=tokens,
            model_calls=model_calls,
            runs=len(results),
            tool_calls=sum(result.usage.tool_calls for result in results),
        )
        files = {artifact.name: artifact for result in results for artifact in result.artifacts}
        yield Answered(
            AgentOutcome(
                answer=action.answer,
                stopped=cast(Stopped, action.stopped),  # by `until_answered`
                results=tuple(results),
                artifacts=tuple(files.values()),
                usage=usage,
            )
        )

    def _run(self, action: Run, toolset: Toolset) -> AsyncGenerator[Event]:
        """Run a program if its review and its approver allow it; the last event is `Completed`."""
        sent = Sent(action.code, action.dependencies)
        return self._supervision.stream(
            action.code,
            toolset,
            lambda tools: self._sandbox.stream(sent.to_run(), tools=tools, timeout=self._timeout),
            engine=self._sandbox.traits.engine,
        )
