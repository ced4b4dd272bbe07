"""`CodeActPlugin`: lets an agent act only by programs, which run in a sandbox and call its tools."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strands import Agent
from strands.plugins import Plugin

import actbox
from actbox.codeact.agent import MAX_TURNS
from actbox.codeact.review_decision import checked_rules
from actbox.core.errors import InvalidValue, SandboxUnavailable
from actbox.core.packages import HOST, Environment, PackagePolicy
from actbox.sandbox.registry import TABLE, no_such_engine

from .codeact_agent import CodeActAgent
from .codeact_invocation import CodeActSettings
from .codeact_sessions import CodeActSessions
from .option_checks import CALLS_AT_ONCE, check_program_options
from .paused_runs import PAUSED_SECONDS
from .sandbox import StrandsSandbox
from .tool_state import note_where_programs_run, was_given_a_sandbox
from .translation import as_strands_says, language_of

if TYPE_CHECKING:
    from actbox.review import Rules  # imported only for a review, since the import takes long

NAME: Final = "actbox:codeact"
_AS_PLUGIN: Final = r"CodeActPlugin(StrandsSandbox(\1))"


class CodeActPlugin(Plugin):
    """Makes an agent answer with programs instead of tool calls; runs each and returns its outcome to the model.

    `Agent(model, tools=[…], plugins=[CodeActPlugin("linux")])`. The model sees no tools; its instructions say how its
    programs run, and declare the agent's tools as functions. The agent's own prompt stays unchanged. A program is the
    fenced blocks of `language` in an answer. It runs in the invocation's own session in the sandbox, and its outcome is
    the next user message. The invocation ends with an answer without a program, with a successful program that calls
    `final_answer(value)`, after `max_turns` answers, and wherever Strands ends it: by `cancel()`, `limits`, a token
    limit, an exception.

    `AgentResult.state["codeact"]` says which, and has the value (`CodeActState`). After `final_answer` the last message
    is its text. After `max_turns` the `stop_reason` is `limit_turns`, and the last message is the outcome of the last
    program, or says that no answer was found if the last answer called a tool.

    Streams have `{"codeact": …}` events: `program`, `printed`, `tool_use`, `tool_result` and events of nested tools.
    Nested calls go through the agent's executor. If one is interrupted for a person, the program waits in its sandbox,
    and resumes when the agent is invoked with the answer.

    One plugin may serve any number of agents, which share nothing except a given sandbox object.
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
        calls_at_once: int = CALLS_AT_ONCE,
        keep_session: bool = False,
        paused_timeout: float = PAUSED_SECONDS,
        guidance: str = "",
        environment: str | Environment | None = None,
        packages: PackagePolicy | None = None,
        review: Rules | None = None,
    ) -> None:
        """`sandbox` is where programs run: a sandbox, or the name of an engine, for a separate sandbox for each agent.

        The default is the agent's own, `Agent(sandbox=StrandsSandbox(…))`, and `"auto"` if the agent has none; then
        tools of this package that were made without a sandbox run there too. Programs can call the sandbox's
        `code_tools`. `language` is one of `traits.languages`.

        `timeout` is in seconds for each program and may only lower the policy's wall limit. `allowed_tools` are the
        names of tools that programs may call, by default all of the agent's and the sandbox's. After `max_tool_calls`
        further calls raise `ToolError` in the program; of simultaneous calls `calls_at_once` run at a time. With
        `keep_session` the definitions of programs last from one invocation of an agent to the next. A program that
        needs a person's decision waits for at most `paused_timeout` seconds. `guidance` is put before the instructions.

        `environment` and `packages` are those of the policy of a sandbox that the plugin opens itself; any other
        sandbox has a policy of its own. Packages are asked about by `packages.approver`, or that of `code_tools`.

        `review` has the rules by which each program is reviewed before it runs (`actbox.review`), such as
        `Rules.preset("spec")`. A blocked program does not run, and the model reads which lines meet which rules;
        warnings go into its outcome. Rules that ask are refused.

        Raises `InvalidValue` for an invalid option, and `SandboxUnavailable` for the name of an engine without
        isolation, for which a sandbox object is required. Making an agent raises `Unsupported` for a language that the
        sandbox does not run, and the errors of opening the sandbox. Invocations raise errors that only the developer
        can fix: `SandboxUnavailable` if the sandbox cannot start, `SandboxStopped` if it was stopped, and
        `InvalidValue` if a tool requires approval and there is no approver.
        """
        if not isinstance(max_turns, int) or isinstance(max_turns, bool) or max_turns < 1:
            raise InvalidValue(f"max_turns must be a whole number, at least 1, not {max_turns!r}")
        if review is not None:
            review = checked_rules(review, cannot_ask="this plugin asks nobody about programs: block, or warn")
        if not isinstance(guidance, str):
            raise InvalidValue(f"guidance must be text, not {guidance!r}")
        allowed = check_program_options(
            timeout=timeout,
            paused_timeout=paused_timeout,
            max_tool_calls=max_tool_calls,
            calls_at_once=calls_at_once,
            allowed_tools=allowed_tools,
        )
        self._given = _checked(sandbox)
        self._policy: actbox.Policy | None = None
        if environment is not None or packages is not None:
            if isinstance(self._given, StrandsSandbox):
                raise InvalidValue(
                    "a sandbox that is there has its own environment and packages: give them to its policy"
                )
            self._policy = actbox.Policy(environment=HOST if environment is None else environment, packages=packages)
        self._settings = CodeActSettings(
            language=language,
            max_turns=max_turns,
            timeout=timeout,
            allowed_tools=allowed,
            max_tool_calls=max_tool_calls,
            calls_at_once=calls_at_once,
            keep_session=keep_session,
            paused_timeout=paused_timeout,
            guidance=guidance,
            review=review,
        )
        super().__init__()

    def init_agent(self, agent: Agent) -> None:
        """Add CodeAct to an agent."""
        sandbox, is_own = self._sandbox_of(agent)
        language = language_of(self._settings.language, sandbox.traits)
        if self._settings.review is not None:
            checked_rules(self._settings.review, language)
        CodeActAgent(replace(self._settings, language=language), CodeActSessions(sandbox, is_own=is_own)).attach(agent)
        note_where_programs_run(agent, sandbox)

    def _sandbox_of(self, agent: Agent) -> tuple[StrandsSandbox, bool]:
        """Return the sandbox, and whether it belongs to the agent alone, to be stopped with it."""
        if isinstance(self._given, StrandsSandbox):
            return self._given, False
        if isinstance(self._given, str):
            return StrandsSandbox(self._given, policy=self._policy), True
        if isinstance(agent.sandbox, StrandsSandbox):
            if self._policy is not None:
                raise InvalidValue(
                    "the agent's sandbox has its own environment and packages: give them to its policy, or name an"
                    " engine for CodeActPlugin"
                )
            return agent.sandbox, False
        if not was_given_a_sandbox(agent):
            return StrandsSandbox("auto", policy=self._policy), True
        raise InvalidValue(
            f"programs run in a sandbox of actbox, and the agent's is a {type(agent.sandbox).__name__}: give"
            " CodeActPlugin(sandbox=…), or Agent(sandbox=StrandsSandbox(…))"
        )


def _checked(sandbox: object) -> StrandsSandbox | str | None:
    """Return the validated `sandbox` argument.

    Raises `InvalidValue` for any other object, and `SandboxUnavailable` for an engine without isolation.
    """
    if sandbox is None or isinstance(sandbox, StrandsSandbox):
        return sandbox
    if isinstance(sandbox, actbox.Sandbox):
        return StrandsSandbox(sandbox)
    if not isinstance(sandbox, str):
        raise InvalidValue(f"sandbox is a sandbox of ours or the name of an engine, not {sandbox!r}")
    if sandbox not in (names := ("auto", *actbox.ENGINES)):
        raise InvalidValue(as_strands_says(str(no_such_engine(sandbox, names)), _AS_PLUGIN))
    if sandbox != "auto" and not TABLE[sandbox].isolates:
        raise SandboxUnavailable(as_strands_says(TABLE[sandbox].isolates_nothing(), _AS_PLUGIN))
    return sandbox
