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
    """The raw arguments of `execute_code`, unvalidated: the core reads malformed calls itself.

    Models see the schema `ExecuteCode.parameters` instead.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _callable(cls, sent: Any) -> Any:
        if not isinstance(sent, Mapping):
            return sent
        # The names become keywords: `self` would collide, and lone surrogates cannot be encoded. Such names are
        # dropped: nothing reads them, and an escaped one could replace another.
        return {name: value for name, value in sent.items() if name != "self" and encodable(name) == name}


def sent(arguments: Mapping[str, Any]) -> Any:
    """Return the arguments as the model sent them; the framework passes text that is not a JSON object as `raw`."""
    return arguments["raw"] if set(arguments) == {"raw"} else dict(arguments)


class Call(Protocol):
    """The function that runs a call of `execute_code`."""

    def __call__(self, arguments: Any, invocation: Invocation) -> Awaitable[Answer]:
        """Run the program in these arguments and return the answer."""
        ...


class ExecuteCode(FunctionTool):
    """A tool whose calls raise only cancellation, and the error of a tool that ends the agent's run.

    `schema` is the schema of its arguments for models.
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
        """Return the arguments' JSON schema for models."""
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
