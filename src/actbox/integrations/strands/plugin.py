"""`CodeActPlugin`: an agent that acts by programs alone, which run in a sandbox and call its tools."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from strands import Agent
from strands.plugins import Plugin
from strands.sandbox.not_a_sandbox_local_environment import NotASandboxLocalEnvironment

import actbox
from actbox.codeact.agent import MAX_TURNS
from actbox.core.errors import InvalidValue

from .act import ActSettings
from .acting import Acting
from .bounds import check_bounds
from .languages import language_of
from .paused import PAUSED_SECONDS
from .place import Place
from .sandbox import StrandsSandbox

NAME: Final = "actbox:codeact"


class CodeActPlugin(Plugin):
    """Has an agent answer with programs in place of tool calls, run each, and read what came of it, until it answers.

    `Agent(model, tools=[…], plugins=[CodeActPlugin("linux")])`. The model is shown no tool; its instructions say how
    its programs run and declare the agent's tools as functions. The agent's own prompt stays as it is. A program is the
    fenced blocks of `language` in an answer. It runs in a session of the sandbox that is the invocation's own, and what
    came of it is the next user message. The invocation ends with an answer that has no program, with a program that
    calls `final_answer(value)` and succeeds, after `max_turns` answers, and wherever Strands ends it: by `cancel()`,
    `limits`, a token limit, an exception.

    `AgentResult.state["codeact"]` says which and has the value (`CodeActState`); after `final_answer` the last message
    is its text. After `max_turns` `stop_reason` is `limit_turns`, and the last message what came of the last program,
    or that no answer was found where the last answer called a tool.

    Those who stream read `{"codeact": …}`: `program`, `printed`, `tool_use`, `tool_result` and what nested tools
    stream. Nested calls go through the agent's executor; where one is interrupted for a person, the program waits in
    its sandbox, and goes on when the agent is invoked with the answer.

    One plugin may serve any number of agents, which share nothing but a sandbox object that was given.
    """

    name = NAME

    def __init__(
        self,
        sandbox: StrandsSandbox | actbox.Sandbox | str | None = None,
        language: str = "python",
        *,
        max_turns: int = MAX_TURNS,
        timeout: float | None = None,
        allowed_tools: Collection[str] | None = None,
        max_tool_calls: int | None = None,
        keep_session: bool = False,
        paused_timeout: float = PAUSED_SECONDS,
        guidance: str = "",
    ) -> None:
        """`sandbox` is where programs run: a sandbox, or the name of an engine, of which each agent has one of its own.

        Without it, it is the agent's, `Agent(sandbox=StrandsSandbox(…))`, and `"auto"` where the agent was given none.
        The sandbox's `code_tools` can be called by programs. `language` is one of `traits.languages`.

        `timeout` is in seconds for each program and may only lower the policy's wall limit. `allowed_tools` are the
        names of the tools that programs may call, all of the agent's and the sandbox's unless told; a program that has
        made `max_tool_calls` gets `ToolError` for further ones. With `keep_session` what programs have defined stays
        from one invocation of an agent to the next. A program that a person has to decide about waits for
        `paused_timeout` seconds at most. `guidance` is put before the instructions.

        Raises `InvalidValue` for what makes no sense; an agent that is made with it raises `Unsupported` for a language
        that the sandbox does not run, and what opening the sandbox raises. Its invocations raise what only the
        developer can mend: `SandboxUnavailable` where the sandbox cannot start, `SandboxStopped` where it was stopped,
        `InvalidValue` where a tool requires approval and nobody is there to be asked.
        """
        if max_turns < 1:
            raise InvalidValue(f"max_turns must be at least 1, not {max_turns}")
        allowed = check_bounds(
            timeout=timeout,
            paused_timeout=paused_timeout,
            max_tool_calls=max_tool_calls,
            allowed_tools=allowed_tools,
        )
        self._given = StrandsSandbox(sandbox) if isinstance(sandbox, actbox.Sandbox) else sandbox
        self._settings = ActSettings(
            language=language,
            max_turns=max_turns,
            timeout=timeout,
            allowed_tools=allowed,
            max_tool_calls=max_tool_calls,
            keep_session=keep_session,
            paused_timeout=paused_timeout,
            guidance=guidance,
        )
        super().__init__()

    def init_agent(self, agent: Agent) -> None:
        """Hang itself into an agent."""
        sandbox, is_own = self._sandbox_of(agent)
        language = language_of(self._settings.language, sandbox.traits)
        Acting(replace(self._settings, language=language), Place(sandbox, is_own=is_own)).attach(agent)

    def _sandbox_of(self, agent: Agent) -> tuple[StrandsSandbox, bool]:
        """Return the sandbox, and whether it is the agent's alone, to be stopped with it."""
        if isinstance(self._given, StrandsSandbox):
            return self._given, False
        if isinstance(self._given, str):
            return StrandsSandbox(self._given), True
        if self._given is not None:
            raise InvalidValue(f"sandbox is a sandbox of ours or the name of an engine, not {self._given!r}")
        if isinstance(agent.sandbox, StrandsSandbox):
            return agent.sandbox, False
        if isinstance(agent.sandbox, NotASandboxLocalEnvironment):
            return StrandsSandbox("auto"), True
        raise InvalidValue(
            f"programs run in a sandbox of actbox, and the agent's is a {type(agent.sandbox).__name__}: give"
            " CodeActPlugin(sandbox=…), or Agent(sandbox=StrandsSandbox(…))"
        )
