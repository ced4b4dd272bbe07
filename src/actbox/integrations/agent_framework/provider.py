"""The base of all providers: gives each run of an agent `execute_code`, with its own tools."""

from __future__ import annotations

import itertools
import logging
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Unpack

from agent_framework import AgentSession, ChatMiddlewareLayer, Content, ContextProvider, SessionContext

from actbox.codeact.frozen import FrozenRun
from actbox.codeact.instructions import EXECUTE_CODE
from actbox.core.errors import InvalidValue
from actbox.tools import Approval

from .approval_scope import CALLS
from .approvals import ASKED, BEGUN, CHANGED, ApprovalGate, Questions, occurrence
from .execute_code import ExecuteCode
from .invocation import Invocation, Scope
from .notes import NOTED, REFUSED, UNSEEN, Notes, forget_unseen, keep_refused, keep_unseen, refuse_unseen
from .question_forms import occurrence_of
from .redirected_answers import Redirection
from .results import Answer, answer_of
from .surface import DomainInputs, MountInputs, ProviderOptions, Surface, Tools

_log = logging.getLogger("actbox")

# The keys of the state that outlast a run, with the types of their values and items.
_KEPT: dict[str, tuple[type, type]] = {
    ASKED: (dict, dict),
    BEGUN: (list, str),
    CALLS: (dict, dict),
    CHANGED: (dict, dict),
    NOTED: (dict, object),
    REFUSED: (dict, dict),
    UNSEEN: (dict, str),
}


class EngineProvider(Surface, ContextProvider):
    """The base of the providers, which differ only in their engine."""

    ENGINE: ClassVar[str]
    DEFAULT_SOURCE_ID: ClassVar[str]

    def __init__(
        self,
        source_id: str | None = None,
        *,
        tools: Tools | Sequence[Tools] | None = None,
        approval_mode: Approval | None = "never_require",
        workspace_root: str | Path | None = None,
        file_mounts: MountInputs | None = (),
        allowed_domains: DomainInputs | None = (),
        tool_name: str = EXECUTE_CODE,
        **options: Unpack[ProviderOptions],
    ) -> None:
        """`source_id` is the key of the provider's state; `None` means `DEFAULT_SOURCE_ID`.

        `options` are those of `ProviderOptions`. Raises `InvalidValue`, and `SandboxUnavailable` if the engine is not
        installed.
        """
        ContextProvider.__init__(self, self.DEFAULT_SOURCE_ID if source_id is None else source_id)
        self._set_up(
            self.ENGINE,
            tools=tools,
            approval_mode=approval_mode,
            workspace_root=workspace_root,
            file_mounts=file_mounts,
            allowed_domains=allowed_domains,
            tool_name=tool_name,
            **options,
        )
        self._questions = Questions(self._runner)
        self._redirection = f"actbox:{self.source_id}:redirection"
        self._has_warned = False

    async def before_run(
        self, *, agent: Any, session: AgentSession | None, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add `execute_code` and its instructions to the run, with the present tools, mounts and domains.

        The framework keeps `state` in `session.state[source_id]`; a description of the run is stored there as JSON
        data.
        """
        await self._connect()
        run = self._config.freeze(listing=state.get("listing"))
        if any(getattr(tool, "name", None) == run.tool_name for tool in context.tools):
            raise InvalidValue(
                f"the run has a tool {run.tool_name!r} already, of another provider perhaps: give"
                f" {type(self).__name__} a tool_name of its own, and a source_id"
            )
        self._check_source_id(agent)
        _check_state(self.source_id, state)
        scope = Scope.of(session, fresh=not state)
        answers = [
            content
            for message in context.input_messages
            for content in message.contents
            if content.type == "function_approval_response"
        ]
        redirection = Redirection(run.tool_name, session)
        redirection.begin(context, answers, lambda answer: self._questions.asked(answer, scope, state))
        if answers:
            context.metadata[self._redirection] = redirection
        if answers or ASKED in state:
            await self._look_at_answers(run, scope, answers, state)
        kept = {name: state[name] for name in _KEPT if name in state}
        state.clear()
        state.update(run.state(), **kept)
        tool = self._tool_for(run, scope, state)
        context.extend_instructions(self.source_id, run.instructions)
        context.extend_tools(self.source_id, [tool])
        may_ask = run.settings.approval_style != "bundled" or run.asks_about_packages or run.asks_about_findings
        if may_ask or run.approval == "always_require" or CALLS in state:
            context.extend_middleware(self.source_id, [ApprovalGate(tool, redirection)])
        mark = self._questions.runs.mark_of(run) if run.approval == "always_require" else None
        if mark is not None or run.changes or not state.keys().isdisjoint((NOTED, REFUSED, UNSEEN)):
            context.extend_middleware(self.source_id, [Notes(run, mark, state)])

    async def after_run(
        self, *, agent: Any, session: AgentSession | None, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Restore unanswered requests, and warn once if the chat client calls no middleware."""
        if (redirection := context.metadata.pop(self._redirection, None)) is not None:
            redirection.end()
        client = getattr(agent, "client", None)
        if self._has_warned or isinstance(client, ChatMiddlewareLayer):
            return
        given = context.middleware.get(self.source_id, ())
        ours = [middleware for middleware in given if isinstance(middleware, Notes)]
        if ours and not any(middleware.was_called for middleware in ours):
            self._has_warned = True
            _log.warning(
                "the chat client %s calls no chat middleware: the model is not told of changed tools and of programs"
                " that were refused, and approved programs may be asked about again; derive it from"
                " ChatMiddlewareLayer",
                type(client).__name__,
            )

    async def close(self) -> None:
        """End running programs as `CANCELLED`, and close the sandboxes and the MCP servers that were connected here."""
        self._questions.clear()
        await super().close()

    def _check_source_id(self, agent: Any) -> None:
        """Raise `InvalidValue` if an earlier provider uses the same key of the state."""
        for other in itertools.takewhile(lambda other: other is not self, getattr(agent, "context_providers", ())):
            if other.source_id == self.source_id:
                raise InvalidValue(
                    f"the agent has another provider with the source_id {self.source_id!r}, by which the session keeps"
                    f" the state of each: give {type(self).__name__} a source_id of its own, such as 'ledger'"
                )

    def _tool_for(self, run: FrozenRun, scope: Scope, state: MutableMapping[str, Any]) -> ExecuteCode:
        async def call(arguments: Any, invocation: Invocation) -> Answer:
            this = occurrence.get()
            if this is not None and this.tool is tool:
                outcome = await self._questions.go_on(run, arguments, this, invocation, scope=scope, state=state)
                if outcome is None:
                    return Answer([Content.from_text("The program waits for approval.")])
                return answer_of(outcome, self._result_format)
            return await self._execute(run, arguments, invocation, scope)

        tool = ExecuteCode(
            call,
            name=run.tool_name,
            description=run.description,
            approval_mode=run.approval,
            schema=run.input_schema,
        )
        return tool

    async def _look_at_answers(
        self, run: FrozenRun, scope: Scope, answers: Sequence[Content], state: dict[str, Any]
    ) -> None:
        """End programs whose requests were refused, and store outcomes that the model has not read."""
        for answer in answers:
            if answer.approved is not True:
                outcome = await self._questions.refuse(answer, run, scope, state)
                if outcome is not None:
                    keep_refused(answer, outcome, run, state)
                else:
                    refuse_unseen(answer, state)
        answered = {occurrence_of(answer) for answer in answers}
        for name, outcome in self._questions.ended(run, scope, state, but=answered).items():
            keep_unseen(name, outcome, run, state)
        forget_unseen(answered, state)


def _check_state(source_id: str, state: dict[str, Any]) -> None:
    """Raise `InvalidValue` for a malformed state, which may come from any session store."""
    for name, (kind, items) in _KEPT.items():
        there = state.get(name, kind())
        inside = list(there.values()) if isinstance(there, dict) else there
        if not isinstance(there, kind) or (inside and not all(isinstance(item, items) for item in inside)):
            raise InvalidValue(
                f"the session's state of {source_id!r} is damaged: {name!r} is not as a provider writes it; begin a new"
                " session, or take the state out of this one"
            )
