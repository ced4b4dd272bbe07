"""What a model is told of `execute_code`: short instructions, and the description that has all the rest.

The instructions name no tool, so that they stay as they are when tools change. The description says what programs may
call, see and use; where there are many tools it lists them, and programs look up the rest.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING

from actbox.core.counted import counted
from actbox.core.domains import AllowedDomain
from actbox.core.mounts import INPUT
from actbox.tools import Tool, stubs, typescript_declarations
from actbox.tools.signature_text import is_writable

from .calling import HOW_TOOLS_ARE_CALLED, HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT
from .markdown import fenced, joined
from .tool_search import DESCRIBE_TOOL, SEARCH_TOOLS

if TYPE_CHECKING:
    from .frozen import FrozenRun

_OWN = frozenset(dir(builtins))

_ONLY_NAMED = (
    "A program has only those of them whose names stand in it: one that is called by a name that is computed is not"
    " there."
)


def instructions(run: FrozenRun) -> str:
    """Return the short text for an agent's instructions."""
    name, language = run.tool_name, _language(run)
    if len(run.toolset):
        return (
            f"You have the tool `{name}`, which runs a {language} program that can call functions. Prefer one program"
            " that makes several calls, with loops and conditions where they help, over one call at a time, and print"
            " or end with what you need to read. What programs can call and use is said in the description of"
            f" `{name}`."
        )
    return (
        f"You have the tool `{name}`, which runs a {language} program. Use it to compute rather than to guess, and"
        f" print or end with what you need to read. What programs can use is said in the description of `{name}`."
    )


def description(run: FrozenRun, *, with_session: bool = True) -> str:
    """Return the whole description of `execute_code`. Without `with_session` files stay where there is a session."""
    return joined(_purpose(run), _rules(run, with_session), _tools(run))


def whole_instructions(run: FrozenRun, *, tools_visible_to_model: bool, with_session: bool = True) -> str:
    """Return instructions that say all that the description says, for an agent that is put together by hand."""
    rules = _rules(run, with_session)
    if not len(run.toolset):
        return joined(instructions(run), rules)
    if run.listing is not None:
        return joined(instructions(run), rules, _tools(run))
    if tools_visible_to_model:
        called = "\n".join(f"- {_short(tool, run.toolset.aliases[tool.name])}" for tool in run.own_tools)
        tools = (
            f"Programs can call these of your tools as functions. Call one directly where a single call is all that you"
            f" need, and in a program of `{run.tool_name}` where several go together.\n\n{called}"
        )
        return joined(instructions(run), rules, tools, _how(run))
    only = f"The functions below can be called in programs only; you reach them by `{run.tool_name}`."
    return joined(instructions(run), only, rules, _tools(run))


def _purpose(run: FrozenRun) -> str:
    if len(run.toolset):
        return (
            "Run a program in a sandbox, where it can call the functions below, and read what came of it: what it"
            " printed, the value of its last expression, its error."
        )
    return (
        "Run a program in a sandbox and read what came of it: what it printed, the value of its last expression, its"
        " error."
    )


def _rules(run: FrozenRun, with_session: bool) -> str:
    limits = run.policy.limits
    lines = [run.settings.about, _freshness(run, with_session), *_files(run), _network(run.policy.domains)]
    calls = f", {limits.tool_calls:,} calls of functions" if len(run.toolset) else ""
    lines.append(
        f"Limits of one program: {counted(float(limits.wall_seconds), 'second')},"
        f" {limits.memory_mib:,} MiB of memory{calls}. You read at most {run.settings.max_chars:,} characters of what"
        " came of it, so print a summary of what is long."
    )
    return "\n".join(f"- {line}" for line in lines if line)


def _freshness(run: FrozenRun, with_session: bool) -> str:
    kept = ""
    if run.file_surface:
        output = ", but /output is emptied first." if run.settings.clear_output else ", and so do those in /output."
        if with_session:
            kept = f" Files in /workspace stay{output}"
        else:
            kept = f" In a session, files in /workspace stay{output} Without one each call has files of its own."
    return f"Each call starts fresh: nothing in memory is left of an earlier one.{kept}"


def _files(run: FrozenRun) -> list[str]:
    if not run.file_surface:
        return []
    given: list[str] = []
    others: list[str] = []
    for mount in run.policy.mounts:
        how = {"ro": "read-only", "rw": "can be changed", "overlay": "changes are not kept"}[mount.mode]
        (given if mount.mount_path == INPUT else others).append(f"{mount.mount_path} ({how})")
    lines = [f"Files to work with: {', '.join([*given, *others])}." if given or others else ""]
    lines.append("Write files that are results to /output: they come back with the answer.")
    return [line for line in lines if line]


def _network(domains: Iterable[AllowedDomain]) -> str:
    allowed = [
        str(domain) if domain.methods is None else f"{domain} ({', '.join(domain.methods)} only)" for domain in domains
    ]
    return f"Network: only {', '.join(allowed)}." if allowed else "Network: none."


def _tools(run: FrozenRun) -> str:
    if not len(run.toolset):
        return ""
    if run.listing is not None:
        lookup = (
            "Programs can call many functions, listed here by group. Look up what you need first, in a program:"
            f" `{SEARCH_TOOLS}(query)` returns the functions that fit best with their signatures,"
            f" `{DESCRIBE_TOOL}(name)` all there is to know of one."
        )
        return joined(lookup, _how(run), run.listing.text())
    if run.settings.language == "javascript":
        declared = fenced(typescript_declarations(run.toolset).rstrip(), "typescript")
    else:
        declared = fenced(stubs(run.toolset).rstrip(), "python")
    return joined(f"Programs can call these functions. {_how(run)}", declared)


def _language(run: FrozenRun) -> str:
    return "JavaScript" if run.settings.language == "javascript" else "Python"


def _how(run: FrozenRun) -> str:
    if run.settings.language == "javascript":
        return HOW_TOOLS_ARE_CALLED_IN_JAVASCRIPT
    hidden = (
        [] if run.listing is not None else [f"`{alias}`" for alias in run.toolset.aliases.values() if alias in _OWN]
    )
    verb = "takes" if len(hidden) == 1 else "take"
    takes_the_place = f"{' and '.join(hidden)} of these {verb} the place of what Python has of that name."
    said = [HOW_TOOLS_ARE_CALLED, _ONLY_NAMED * run.settings.only_named_tools, takes_the_place * bool(hidden)]
    return " ".join(filter(None, said))


def _short(tool: Tool, alias: str) -> str:
    required = tool.input_schema.get("required", ())
    names = [name if name in required else f"{name}=…" for name in tool.parameters if is_writable(name)]
    unwritable = [f"{name!r}: …" for name in tool.parameters if not is_writable(name)]
    if unwritable:
        names.append(f"**{{{', '.join(unwritable)}}}")
    first_line = tool.description.strip().partition("\n")[0]
    own_name = "" if alias == tool.name else f", which is `{tool.name}`"
    return f"`{alias}({', '.join(names)})`{own_name}" + (f": {first_line}" if first_line else "")
