"""A chat client of Agent Framework's that answers from a script, and what tests say with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)
from agent_framework.observability import ChatTelemetryLayer

Turn = Sequence["Content | str"] | Callable[[Sequence[Message]], Sequence["Content | str"]]


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, ChatTelemetryLayer, BaseChatClient):  # type: ignore[misc, type-arg]
    """Each turn is what the model answers next: texts and calls, or a function of what it was sent.

    One that `keeps_history` gives each answer an id, from which the next request goes on with new messages only.
    """

    OTEL_PROVIDER_NAME = "scripted"

    def __init__(self, *turns: Turn, keeps_history: bool = False, **given: Any) -> None:
        super().__init__(**given)
        self.STORES_BY_DEFAULT = keeps_history
        self.turns = list(turns)
        self.messages: list[list[Message]] = []
        self.options: list[dict[str, Any]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        self.messages.append(list(messages))
        self.options.append(dict(options))
        turn = self.turns.pop(0)
        said = turn(messages) if callable(turn) else turn
        conversation = f"answer-{len(self.messages)}" if self.STORES_BY_DEFAULT else None
        contents = [Content.from_text(item) if isinstance(item, str) else item for item in said]
        if stream:

            async def updates() -> Any:
                for content in contents:
                    yield ChatResponseUpdate(role="assistant", contents=[content], conversation_id=conversation)

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

        async def answer() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", contents)], conversation_id=conversation)

        return answer()

    def tool(self, name: str = "execute_code", turn: int = -1) -> Any:
        """Return the tool of that name as it was offered."""
        return next(tool for tool in self.options[turn]["tools"] if tool.name == name)

    def results(self, turn: int = -1) -> list[Content]:
        """Return the results of functions in what the model was sent."""
        return [item for message in self.messages[turn] for item in message.contents if item.type == "function_result"]

    def read(self, turn: int = -1) -> str:
        """Return the last result as the model reads it."""
        return str(self.results(turn)[-1].result)


def code(program: Any, call_id: str = "call-1", name: str = "execute_code") -> Content:
    """Return a model's call that runs a program; anything but text is sent as the arguments."""
    arguments = {"code": program} if isinstance(program, str) else program
    return Content.from_function_call(call_id, name, arguments=arguments)


def agent_of(client: ScriptedClient, *providers: Any, **given: Any) -> Agent[Any]:
    return Agent(client=client, context_providers=list(providers), **given)  # type: ignore[arg-type]


async def run_program(
    provider: Any, program: Any, *, session: AgentSession | None = None, **given: Any
) -> ScriptedClient:
    """Have a model run one program; return its client."""
    client = ScriptedClient([code(program)], ["done"])
    response = await agent_of(client, provider, **given).run("go", session=session)
    assert response.text == "done"
    return client


def kinds(result: Content) -> list[str]:
    """Return the types of the items of a function's result."""
    return [item.type for item in result.items or []]


def answers(response: Any, approved: bool = True) -> Message:
    """Return the message that answers all questions of a response."""
    return Message(
        "user", [request.to_function_approval_response(approved) for request in response.user_input_requests]
    )


def about(request: Content) -> Mapping[str, Any]:
    """Return what a question of ours says of itself."""
    found: Mapping[str, Any] = request.additional_properties["actbox"]
    return found
