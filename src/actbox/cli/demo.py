"""`actbox demo`: an agent answers a question about real data with code, on the terminal, turn by turn."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from actbox.codeact import (
    AgentOutcome,
    Answered,
    ChatModel,
    CodeAgent,
    CodeFinished,
    CodeStarted,
    ModelSpoke,
    RunEvent,
    ScriptedModel,
    TurnStarted,
)
from actbox.codeact.blocks import program_in
from actbox.content.safe_text import TerminalText
from actbox.core.events import Event, Output, ToolFinished, ToolStarted
from actbox.core.result import ExecutionResult
from actbox.sandbox.contract import Sandbox

from .demo_case import QUESTION, SCRIPTED_REPLIES, demo_tools
from .engine import Opening
from .errors import UsageError
from .interrupt import Interrupted, run_interruptibly

# The packages of the extra actbox[demo] that the demo imports.
_NEEDS: Final = ("pandas", "matplotlib", "vega_datasets")


def show_demo(model: str | None, folder: Path, opening: Opening, base_url: str | None = None) -> int:
    """Run the demonstration and return its exit code.

    Raises `UsageError` for a missing extra, or for a `base_url` without a model; both are checked first.
    """
    if base_url is not None and model is None:
        raise UsageError(
            "--base-url is the address of a model, and there is no --model",
            "such as --model openai-chat:NAME --base-url http://127.0.0.1:8000/v1",
        )
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        sentence = f"this needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise UsageError(sentence, "pip install 'actbox[demo]'")
    try:
        with opening.explained():
            return run_interruptibly(lambda: demo(model, folder, Console(), opening.open, base_url))
    except Interrupted as error:
        return error.exit_code


async def demo(
    model_name: str | None,
    folder: Path,
    console: Console,
    open_sandbox: Callable[[], Sandbox],
    base_url: str | None = None,
) -> int:
    """Run the demo and return its exit code: 0 only if an answer and a chart came out.

    Without a model's name a scripted model is used, and the output says so. `base_url` is the address of the named
    model. The chart is saved into `folder`. Raises `ActboxError` if a package, the model or the sandbox is unavailable.
    """
    tools = demo_tools()
    async with _model(model_name, base_url) as model, open_sandbox() as box:
        console.print(_introduction(model, box))
        agent = CodeAgent(model, box, tools=tools, timeout=60)
        outcome: AgentOutcome | None = None
        async for event in agent.stream(QUESTION):
            if isinstance(event, Answered):
                outcome = event.outcome
            else:
                _show(console, event, model)
    assert outcome is not None
    return _conclude(console, outcome, folder)


def _model(name: str | None, base_url: str | None) -> AbstractAsyncContextManager[ChatModel]:
    if name is None:
        return nullcontext(ScriptedModel(SCRIPTED_REPLIES))
    from actbox.integrations.pydantic_ai import PydanticAIModel

    return PydanticAIModel(name, base_url=base_url)


def _introduction(model: ChatModel, box: Sandbox) -> Panel:
    if isinstance(model, ScriptedModel):
        who = "a scripted model, which replays fixed replies (for a real one: --model NAME)"
    else:
        who = model.name
    text = Text.assemble(
        ("model    ", "bold"),
        f"{who}\n",
        ("sandbox  ", "bold"),
        f"real: {box.traits.engine} ({box.traits.isolation})\n",
        ("question ", "bold"),
        QUESTION,
    )
    return Panel(text, title="actbox demo", border_style="cyan")


def _show(console: Console, event: Any, model: ChatModel) -> None:
    match event:
        case TurnStarted(turn=turn):
            kind = "the scripted model" if isinstance(model, ScriptedModel) else "the model"
            console.rule(f"turn {turn}: {kind} answers", style="cyan")
        case ModelSpoke(text=text):
            # The program is shown separately, highlighted, when it runs.
            words = text if program_in(text) is None else text.partition("```")[0]
            if words.strip():
                console.print(_shown(words.strip(), "italic"))
        case CodeStarted(code=code):
            console.print(
                Syntax(_shown(code.strip("\n")).plain, "python", line_numbers=True, word_wrap=True, theme="ansi_dark")
            )
        case RunEvent(event=run_event):
            _show_run(console, run_event)
        case CodeFinished(result=result):
            _show_result(console, result)


def _show_run(console: Console, event: Event) -> None:
    match event:
        case Output(stream=stream, text=text):
            console.print(_shown(text, "red" if stream == "stderr" else ""), end="")
        case ToolStarted(tool=tool, arguments=arguments):
            console.print(_shown(f"  → {tool}({_brief(arguments)})", "magenta"))
        case ToolFinished(tool=tool, error=error, wall_ms=wall_ms):
            outcome = f"failed: {error}" if error is not None else "returned"
            console.print(_shown(f"  ← {tool} {outcome} after {wall_ms:.1f} ms", "magenta"))


def _show_result(console: Console, result: ExecutionResult) -> None:
    if result.error is not None:
        console.print(_shown(result.error.traceback.rstrip() or result.error.message, "red"))
        line = f" in line {result.error.line}" if result.error.line else ""
        failure = f"{result.error.kind.value}{line}: {result.error.type}: {result.error.message}"
        console.print(_shown(failure, "bold red"))
        if result.error.hint:
            console.print(_shown(f"hint: {result.error.hint}", "yellow"))
    outcome = "ended well" if result.success else f"failed with exit code {result.exit_code}"
    console.print(Text(f"the program {outcome} after {result.usage.wall_ms / 1000:.2f} s", style="dim"))


def _conclude(console: Console, outcome: AgentOutcome, folder: Path) -> int:
    console.rule("answer", style="green")
    if outcome.answer is None:
        console.print(Text(f"There is no answer ({outcome.stopped}).", style="red"))
    elif isinstance(outcome.answer, dict):
        table = Table(show_header=False)
        for key, value in outcome.answer.items():
            table.add_row(_shown(str(key)), _shown(str(value)))
        console.print(table)
    else:
        console.print(_shown(str(outcome.answer)))
    charts = [artifact for artifact in outcome.artifacts if artifact.media_type == "image/png"]
    for artifact in outcome.artifacts:
        console.print("file     ", Text(str(artifact.save(folder)), style="bold"), soft_wrap=True)
    usage = outcome.usage
    console.print(
        f"{usage.model_calls} model calls, {usage.runs} programs, {usage.tool_calls} tool calls, "
        f"{usage.tokens.input_tokens + usage.tokens.output_tokens} tokens"
    )
    if not charts:
        console.print(Text("No chart came out.", style="red"))
    return 0 if outcome.answer is not None and charts else 1


def _shown(text: str, style: str = "") -> Text:
    """Return text of a model or a program with all terminal control made harmless."""
    safe = TerminalText()
    return Text(safe.feed(text) + safe.end(), style=style)


def _brief(arguments: Any) -> str:
    text = ", ".join(
        f"{name}={json.dumps(value, default=str, ensure_ascii=False)}" for name, value in arguments.items()
    )
    return text if len(text) <= 100 else text[:97] + "…"
