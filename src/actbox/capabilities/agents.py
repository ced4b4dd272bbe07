"""`CapabilityTools`: the capabilities of a registry as the tools of an agent, which share one account."""

from __future__ import annotations

import asyncio
import fnmatch
import threading
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final, overload

from pydantic import Field
from typing_extensions import TypedDict  # on Python 3.11 pydantic refuses that of typing

from actbox.codeact.tool_index import ToolIndex
from actbox.core.errors import InvalidValue, ToolError
from actbox.core.labels import Label
from actbox.core.values import pack
from actbox.sandbox.taint import call_taint
from actbox.sandbox.wall_clock import call_clock
from actbox.tools import Tool, Toolset
from actbox.tools.json_form import spelled_out
from actbox.tools.schema_arguments import SchemaArguments
from actbox.tools.signature_text import identifier

from .budgets import Account, Budget
from .capability import Capability
from .invocation import labels_of, new_id
from .outcome import InvocationError, Outcome, StepEvent
from .registry import Registry

SEARCH_ABOVE: Final = 20
"""The most capabilities that are tools of their own, unless the caller says otherwise."""
SEARCH_CAPABILITIES: Final = "search_capabilities"
INVOKE_CAPABILITY: Final = "invoke_capability"

_PATTERN: Final = frozenset("*?[")
_OUTSIDE: Final = frozenset({"network", "filesystem", "state"})
"""The effects that a second call of a capability has again."""
_MOST_QUERY: Final = 1_000
_MOST_FOUND: Final = 50


class FoundCapability(TypedDict):
    """A capability that a search found, with all that a model needs to invoke it."""

    id: str
    description: str
    effects: list[str]
    risk: str
    approvals: list[str]
    input_schema: dict[str, Any]


class CapabilityTools(Sequence[Tool]):
    """The capabilities of a registry as tools, for one conversation of one agent.

    Give them wherever tools are taken. As functions that programs call: `CodeAgent(model, box, tools=…)`, the providers
    of Agent Framework, `StrandsSandbox(code_tools=…)`. As tools that a model calls itself: `model_tools(…)` of the
    integrations of Agent Framework and Strands.

    A tool has its capability's id as an identifier (`execute_python`), its input schema as parameters, and its
    description with its effects, risk and approvals. A call invokes the capability through the registry and returns
    its output. Where that fails, the call raises `ToolError` with the message, the step and the hint. While somebody is
    asked for approval, the clock of the program that calls stands still.

    Where there are more than `search_above` capabilities, only those named in `always` are tools of their own; the
    tools `search_capabilities` and `invoke_capability` find and invoke all of them.

    All calls share one account. An agent has read what its calls return, so the label of each outcome is also that of
    every later input: `label` only rises. A program's workspace passes its own label on, and has that of each outcome
    before the program has its output. Use another object for another conversation.

    The sandboxes of a registry belong to the event loop that first used them, so make all calls in one loop.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        caller: str = "agent",
        run: str = "",
        budget: Budget | Account | None = None,
        labels: Label | str | Mapping[str, Label | str] | None = None,
        only: Iterable[str] | None = None,
        always: Iterable[str] = (),
        search_above: int = SEARCH_ABOVE,
        on_outcome: Callable[[Outcome], object] | None = None,
    ) -> None:
        """`caller` names the agent, `run` the conversation, by default one of its own. `budget` is for all calls
        together. `labels` are those of what the agent has read before.

        `only` are the ids of the capabilities that there are tools for, by default all that the registry has now and
        can carry out. It and `always` take patterns too, such as `skills.*.read`. `on_outcome`, sync or async, is
        called with each outcome before the agent has it.

        Raises `InvalidValue` for an unknown id, a pattern that no id has, two ids that are the same identifier, an id
        that is the name of another function of programs, and a budget of more than the registry has left.
        """
        if isinstance(search_above, bool) or not isinstance(search_above, int) or search_above < 0:
            raise InvalidValue(f"search_above is a whole number from 0, not {search_above!r}")
        self._registry = registry
        self._caller, self._run = caller, run or new_id()
        self._on_outcome = on_outcome
        if not isinstance(budget, Account):
            budget = Account(budget or Budget(), registry.account, on_limit=registry.account.on_limit)
        self.account = budget
        """The account of all calls: what they have used, and what is left."""
        self._label = labels_of(labels)
        self._lock = threading.Lock()
        self._index: ToolIndex | None = None
        known = [one for one in registry.list() if one.handler is not None]
        self._capabilities: dict[str, Capability] = {}
        for one in known if only is None else _meant(only, known, registry.find):
            name = identifier(one.id)
            if (other := self._capabilities.setdefault(name, one)) is not one:
                raise InvalidValue(f"{other.id!r} and {one.id!r} are both {name} in programs: give one another id")
        always = [identifier(one.id) for one in _meant(always, self._capabilities.values(), self._offered)]
        tools = self._all = Toolset([self._tool(name, one) for name, one in self._capabilities.items()])
        if len(tools) > search_above:
            search = Tool.from_function(self._search, name=SEARCH_CAPABILITIES, retry_safe=True)
            tools = tools.only(always).with_tools(search, Tool.from_function(self._invoke, name=INVOKE_CAPABILITY))
        self._tools = tuple(tools)

    @property
    def label(self) -> Label:
        """The join of what the agent has read: the label of its next input."""
        return self._label

    @overload
    def __getitem__(self, place: int) -> Tool: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Tool, ...]: ...
    def __getitem__(self, place: int | slice) -> Tool | tuple[Tool, ...]:
        return self._tools[place]

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"CapabilityTools({', '.join(tool.name for tool in self)})"

    def _tool(self, name: str, capability: Capability) -> Tool:
        takes = capability.input_schema.to_json()
        return Tool.from_schema(
            name,
            _described(capability),
            takes,
            partial(self._call, capability.id),
            output_schema=capability.output_schema.to_json() or None,
            arguments=_CheckedLater(name, takes),
            retry_safe=capability.retry_safe or _OUTSIDE.isdisjoint(capability.effects),
        )

    async def _search(
        self,
        text: Annotated[str, Field(max_length=_MOST_QUERY, description="Words that say what you need, or an id")],
        limit: Annotated[int, Field(ge=1, le=_MOST_FOUND, description="How many to return at most")] = 10,
    ) -> list[FoundCapability]:
        """Find capabilities by words of their ids and descriptions, the best first. It invokes none of them."""
        if self._index is None:
            self._index = ToolIndex(self._all, {})
        return [_found(self._capabilities[name]) for name in self._index.search(text)[:limit]]

    async def _invoke(
        self,
        id: Annotated[str, Field(description="As search_capabilities returns it")],
        input: Annotated[dict[str, Any], Field(description="Fits the capability's input_schema")],
    ) -> Any:
        """Invoke a capability, and return its output."""
        try:
            found = self._offered(id)
        except InvalidValue as error:
            raise ToolError(f"{error}; {SEARCH_CAPABILITIES}(text) finds capabilities") from None
        return await self._call(found.id, **input)

    def _offered(self, id: str) -> Capability:
        """Return a capability of these tools. Raises `InvalidValue` for any other id."""
        found = self._registry.find(id)
        if self._capabilities.get(identifier(found.id)) is not found:
            raise InvalidValue(f"there is no tool for the capability {found.id!r}")
        return found

    async def _call(self, id: str, /, **given: Any) -> Any:
        taint = call_taint.get()
        with _standing_still({"approval", *(["budget"] if self.account.on_limit == "ask" else [])}) as follow:
            outcome = await self._registry.invoke(
                id,
                given,
                caller=self._caller,
                run=self._run,
                budget=self.account,
                labels=self._label if taint is None else self._label | taint.label,
                on_event=follow,
            )
        with self._lock:
            self._label |= outcome.labels
        if taint is not None:
            taint.raise_to(outcome.labels)  # raises if the program must not have it
        if self._on_outcome is not None:
            told = self._on_outcome(outcome)
            if asyncio.iscoroutine(told):
                await told
        if outcome.error is not None:
            raise ToolError(self._why(outcome.error))
        return outcome.output

    def _why(self, error: InvocationError) -> str:
        """Return the sentence for a model whose call has failed."""
        hint = error.hint
        if error.kind == "exceeded" and not all(self.account.left.amounts().values()):
            hint = "nothing is left for further calls: answer with what you have, or say that you need a larger budget"
        return f"{error.message} (step {error.step}){f'; {hint}' if hint else ''}"


def _meant(
    given: Iterable[str], capabilities: Collection[Capability], find: Callable[[str], Capability]
) -> list[Capability]:
    """Return the capabilities of some ids and patterns of ids, each once. Raises `InvalidValue`."""
    if isinstance(given, str):
        raise InvalidValue(f"give a list of ids, such as [{given!r}]")
    found: dict[str, Capability] = {}
    for id in given:
        if not isinstance(id, str) or _PATTERN.isdisjoint(id):
            meant = [find(id)]
        elif not (meant := [one for one in capabilities if fnmatch.fnmatchcase(one.id, id)]):
            raise InvalidValue(f"no capability has an id like {id!r}")
        found |= {one.id: one for one in meant}
    return [*found.values()]


class _CheckedLater(SchemaArguments):
    """The arguments of a capability as they came: the registry checks them, and its journal has those it refuses."""

    def bind(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as plain JSON data."""
        given = dict(arguments)
        return (), given if pack(given) is given else spelled_out(given)


@contextmanager
def _standing_still(waits: Container[str]) -> Iterator[Callable[[StepEvent], None]]:
    """Yield a follower of an invocation, which stops the clock of the calling program in the steps that may wait."""
    clock, stopped = call_clock.get(), 0

    def follow(event: StepEvent) -> None:
        nonlocal stopped
        if clock is None or event.step not in waits or event.what == "note":
            return
        if event.what == "begun":
            clock.pause()
            stopped += 1
        else:
            clock.resume()
            stopped -= 1

    try:
        yield follow
    finally:
        if clock is not None:
            for _ in range(stopped):
                clock.resume()


def _described(capability: Capability) -> str:
    facts = [f"Effects: {', '.join(capability.effects) or 'none'}.", f"Risk: {capability.risk}."]
    if capability.approvals:
        facts.append(f"Needs approval: {', '.join(capability.approvals)}.")
    return "\n\n".join(part for part in (capability.description, " ".join(facts)) if part)


def _found(capability: Capability) -> FoundCapability:
    return {
        "id": capability.id,
        "description": capability.description,
        "effects": [*capability.effects],
        "risk": capability.risk,
        "approvals": [*capability.approvals],
        "input_schema": capability.input_schema.to_json(),
    }
