"""The parser of `actbox solve`'s arguments: tasks, their checks and the model, before any sandbox or model is asked."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from actbox.capabilities.budgets import Budget
from actbox.capabilities.prices import Prices, TokenPrice
from actbox.codeact.model import ChatModel, ScriptedModel
from actbox.codeact.named_model import named_model
from actbox.codegen.profiles import Profiles
from actbox.codegen.retry import RetryPolicy
from actbox.codegen.task import Check, SchemaCheck, Task, TextCheck
from actbox.core.errors import InvalidValue
from actbox.sandbox.languages import language_of

from .arguments import folder_from
from .errors import UsageError, in_flags
from .profiles import PLACES, load_profiles
from .show import check_may_be_replaced

_WHO: Final = (
    "give --model PROVIDER:NAME, --profile NAME, or --config PATH with profiles; --replies FILE needs no model"
)
_KINDS: Final = (
    "a check is a Python file with a function check(result) or with tests (test_…), a JSON Schema (.json), or text with"
    " >>> examples"
)
_SEPARATOR: Final = re.compile(r"^---[ \t]*$\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """The parsed command line of `actbox solve`.

    `save` is an existing directory for all files; without it, files that the task names go into the current one. `page`
    is the path of the HTML page, `-` for standard output.
    """

    tasks: tuple[Task, ...]
    model: ChatModel | Profiles
    profiles: Profiles | None
    retry: RetryPolicy
    budget: Budget | None
    prices: Prices
    write_tests: bool
    save: Path | None
    page: str | None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that the last task must write."""
        return tuple(self.tasks[-1].outputs)


def parse_solve_request(
    goals: Sequence[str],
    *,
    inputs: Sequence[Path] = (),
    outputs: Sequence[str] = (),
    model: str | None = None,
    base_url: str | None = None,
    profile: str | None = None,
    config: Path | None = None,
    replies: Path | None = None,
    attempts: int | None = None,
    best_of: int = 1,
    budget_usd: float | None = None,
    checks: Sequence[Path] = (),
    language: str | None = None,
    sandbox: str = "auto",
    retry_policy: Path | None = None,
    prices: Path | None = None,
    write_tests: bool = False,
    page: str | None = None,
    save: Path | None = None,
    as_json: bool = False,
) -> SolveRequest:
    """Return the request that the options describe. Raises `UsageError`, which names the wrong option."""
    if page == "-" and as_json:
        raise UsageError("--html - and --json both print a document", "give --html a file, or leave out one of them")
    read = [*inputs, *checks, *(one for one in (config, replies, retry_policy, prices) if one is not None)]
    if page is not None:
        check_may_be_replaced(page, [str(one) for one in read if one.exists()], "one of the files to read")
    writer, profiles = _writer(model, base_url, profile, config, replies)
    try:
        retry = RetryPolicy() if retry_policy is None else RetryPolicy.load(retry_policy)
        retry = retry if attempts is None else replace(retry, max_attempts=attempts)
    except InvalidValue as error:
        text = str(error).replace("max_attempts", "--attempts") if retry_policy is None else str(error)
        raise UsageError(text, "such as --attempts 3, or --retry-policy retry-policy.yaml") from None
    try:
        files = _inputs(inputs)
        spoken = language or language_of(sandbox)
        tasks = [Task(goal, inputs=files, language=spoken, best_of=best_of, profile=profile or "") for goal in goals]
        last = replace(tasks.pop(), outputs=outputs, checks=[check_from(path) for path in checks])
        return SolveRequest(
            tasks=(*tasks, last),
            model=writer,
            profiles=profiles,
            retry=retry,
            budget=None if budget_usd is None else Budget(usd=budget_usd),
            prices=_prices(prices, scripted=replies is not None),
            write_tests=write_tests,
            save=folder_from(save, "--save"),
            page=page,
        )
    except InvalidValue as error:
        raise UsageError(in_flags(str(error)), "actbox solve --help shows the form of each option") from None


def _writer(
    model: str | None, base_url: str | None, profile: str | None, config: Path | None, replies: Path | None
) -> tuple[ChatModel | Profiles, Profiles | None]:
    """Return who writes the programs, and with a model the profiles to which it delegates.

    The profiles of the current directory are read only if nothing else is given.
    """
    named = {"--model": model, "--profile": profile, "--replies": replies}
    given = [option for option, value in named.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are given together", "give one of them")
    if base_url is not None and model is None:
        hint = "such as --model openai-chat:NAME --base-url http://127.0.0.1:8000/v1"
        raise UsageError("--base-url is the address of a model, and there is no --model", hint)
    if not given and config is None and not any(place.is_file() for place in PLACES):
        raise UsageError("no model is given to write the programs", _WHO)
    if model is None and replies is None:
        return load_profiles(config), None
    profiles = None if config is None else load_profiles(config)
    if replies is not None:
        return ScriptedModel(replies_from(replies)), profiles
    assert model is not None
    return named_model(model, base_url=base_url), profiles


def replies_from(path: Path) -> list[str]:
    """Return the replies of a scripted model: the parts of a file between lines `---`."""
    found = _SEPARATOR.split(_text(path, "--replies"))
    return found[:-1] if len(found) > 1 and not found[-1].strip() else found


def check_from(path: Path) -> Check:
    """Return the check that a file is. Raises `UsageError` for a file that is none.

    A Python file that defines `check` is run here, on the host: it is the caller's own.
    """
    text = _text(path, "--check")
    if path.suffix == ".json":
        return _schema(path, text)
    if path.suffix == ".py":
        names = _defined(path, text)
        is_tests = any(name.startswith(("test_", "Test")) for name in names)
        if is_tests and "check" in names:
            raise UsageError(f"--check {path}: the file has both check() and tests", "put them in two files")
        if "check" in names:
            return _function(path)
        if is_tests:
            return TextCheck(text)
    if ">>>" in text:
        return TextCheck(text, "doctest")
    raise UsageError(f"--check {path}: this file has no check", _KINDS)


def _schema(path: Path, text: str) -> SchemaCheck:
    try:
        return SchemaCheck(json.loads(text))
    except (ValueError, RecursionError, InvalidValue) as error:
        raise UsageError(f"--check {path}: this is no JSON Schema: {error}", _KINDS) from None


def _defined(path: Path, text: str) -> set[str]:
    """Return the names of the functions and classes at the top level of a Python file."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"--check {path}: this is no Python: {error}", _KINDS) from None
    return {one.name for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def _function(path: Path) -> Callable[..., Any]:
    name = f"actbox_check_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # of the user's own code
        raise UsageError(
            f"--check {path}: {type(error).__name__}: {error}", "the file is run on this machine"
        ) from None
    check: Callable[..., Any] = module.check
    return check


def _inputs(paths: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in paths:
        name = path.name or path.resolve().name  # `.` has none
        if found.setdefault(name, path) != path:
            raise UsageError(f"--input {path}: there is another input of the name {name}", "rename one of them")
    return found


def _prices(path: Path | None, *, scripted: bool) -> Prices:
    prices = Prices() if path is None else Prices.load(path)
    if not scripted:
        return prices
    return Prices(models={**prices.models, ScriptedModel.name: TokenPrice(input=0, output=0)})


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}", "give a file that you can read") from None
    except UnicodeDecodeError:
        raise UsageError(f"{option} {path}: this is not UTF-8 text", "save it as UTF-8") from None
