"""`execute_code` as the framework's `FunctionTool`."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from agent_framework import Content, FunctionInvocationContext, FunctionTool
from pydantic import BaseModel, ConfigDict, model_validator

from actbox.content.safe_text import encodable

from .invocation import Invocation, current
from .results import Answer
from .telemetry import mark_failed

_call_id: ContextVar[str] = ContextVar("actbox_agent_framework_call_id", default="")


class AsSent(BaseModel):
    """The arguments of `execute_code`, whatever they are: a program that was sent oddly is the core's to read.

    The schema that models see is `ExecuteCode.parameters`.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _callable(cls, sent: Any) -> Any:
        if not isinstance(sent, Mapping):
            return sent
        # They become keywords, where `self` has a meaning already, and no half of a surrogate pair may be.
        return {encodable(name): value for name, value in sent.items() if name != "self"}


def sent(arguments: Mapping[str, Any]) -> Any:
    """Return arguments as the model sent them: the framework hands on as `raw` what was no JSON object."""
    return arguments["raw"] if set(arguments) == {"raw"} else dict(arguments)


class Call(Protocol):
    """What a call of `execute_code` comes to."""

    def __call__(self, arguments: Any, invocation: Invocation) -> Awaitable[Answer]:
        """Run the program in these arguments."""
        ...


class ExecuteCode(FunctionTool):
    """A tool whose calls never raise but to be cancelled, or to end the agent's run where a tool asked for that.

    `schema` is what models see of its arguments.
    """

    def __init__(self, call: Call, *, name: str, description: str, approval_mode: Any, schema: dict[str, Any]) -> None:
        async def execute(
            invocation_context: FunctionInvocationContext | None = None, **arguments: Any
        ) -> list[Content]:
            invocation = Invocation.of(invocation_context, _call_id.get())
            token = current.set(invocation)
            try:
                answer = await call(sent(arguments), invocation)
            finally:
                current.reset(token)
            if answer.failure:
                mark_failed(answer.failure)
            return answer.contents

        self._schema = schema
        super().__init__(
            name=name,
            description=description,
            approval_mode=approval_mode,
            func=execute,
            input_model=AsSent,
            additional_properties={},
        )

    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema that models see."""
        return self._schema

    async def invoke(
        self,
        *,
        arguments: BaseModel | Mapping[str, Any] | None = None,
        context: FunctionInvocationContext | None = None,
        tool_call_id: str | None = None,
        skip_parsing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Run one program; see `FunctionTool.invoke`."""
        token = _call_id.set(tool_call_id or "")
        try:
            return await super().invoke(
                arguments=arguments,
                context=context,
                tool_call_id=tool_call_id,
                skip_parsing=skip_parsing,  # type: ignore[call-overload]
                **kwargs,
            )
        finally:
            _call_id.reset(token)
