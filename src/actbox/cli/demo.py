"""`actbox demo`: an agent answers a question about real data with code, turn by turn, and a coding agent refines a
program until it passes a check.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.panel import Panel
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
from actbox.sandbox.contract import Sandbox

from .demo_case import QUESTION, SCRIPTED_REPLIES, demo_tools
from .demo_story import REPLIES, tell
from .engine import Opening
from .errors import UsageError
from .interrupt import Interrupted, run_interruptibly
from .program_view import show_answer, show_result, show_run, show_source, shown

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
    """Run the demo and return its exit code: 0 only if both its parts end with an answer and a chart.

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
        code = _conclude(console, outcome, folder)
        if isinstance(model, ScriptedModel):
            model = ScriptedModel(REPLIES)
        return code if await tell(model, box, console, folder) else 1


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
                console.print(shown(words.strip(), "italic"))
        case CodeStarted(code=code):
            show_source(console, code, "python")
        case RunEvent(event=run_event):
            show_run(console, run_event)
        case CodeFinished(result=result):
            show_result(console, result)


def _conclude(console: Console, outcome: AgentOutcome, folder: Path) -> int:
    console.rule("answer", style="green")
    if outcome.answer is None:
        console.print(Text(f"There is no answer ({outcome.stopped}).", style="red"))
    else:
        show_answer(console, outcome.answer)
    charts = [artifact for artifact in outcome.artifacts if artifact.media_type == "image/png"]
    for artifact in outcome.artifacts:
        console.print("file     ", Text(str(artifact.save(folder)), style="bold"), soft_wrap=True)
    usage = outcome.usage
    console.print(
        f"{usage.model_calls} model calls, {usage.runs} programs, {usage.tool_calls} tool calls, "
        f"{usage.tokens.total} tokens"
    )
    if not charts:
        console.print(Text("No chart came out.", style="red"))
    return 0 if outcome.answer is not None and charts else 1
