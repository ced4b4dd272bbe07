"""The table and the picture of `docs/engines.md`, made of what engines say of themselves and of what was measured."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from machine import machine_text

import actbox

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "engines.md"
PICTURE = DOCS / "engines.svg"
_BEGIN, _END = "<!-- engines: begin (made by benchmarks/engines.py) -->", "<!-- engines: end -->"
_HEADINGS = (
    "engine", "isolation", "languages", "packages", "tools", "network", "limits", "sessions", "first run",
    "fresh run", "tool call", "platforms",
)  # fmt: skip
_PLATFORMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_WAYS = {"channel": "a channel", "callbacks": "callbacks", "files": "files", "http": "HTTP"}
_KERNELS_OWN = re.compile(r"Landlock \(version \d+\); ")
_LIMITS = tuple(actbox.Limits().to_dict())


def write_page(kept: Mapping[str, Mapping[str, Any]]) -> Path:
    """Put the table between the page's two markers, and draw the picture beside it."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not rest or not after:
        raise RuntimeError(f"{PAGE} lacks the markers that the table goes between")
    PAGE.write_text(f"{before}{_BEGIN}\n\n{table(kept)}\n\n{_END}{after}")
    draw(kept)
    return PAGE


def outdated(kept: Mapping[str, Mapping[str, Any]], today: Mapping[str, actbox.Traits | None]) -> list[str]:
    """Return what the page's table says otherwise than what was kept, or than what engines say of themselves today.

    An engine that says nothing on this machine is passed over; whether a kernel has Landlock is no matter of the page.
    """
    found = []
    if PAGE.read_text().partition(_BEGIN)[2].partition(_END)[0].strip() != table(kept):
        found.append(f"{PAGE.name} was changed by hand, or not made again: python benchmarks/engines.py --page")
    for name, traits in today.items():
        if traits is None:
            continue
        in_table = kept.get(name, {}).get("traits")
        said, is_so = (_cells(of_it) if of_it else [] for of_it in (in_table, traits.to_dict()))
        found += [
            f"{name}: the table says {old!r}, the engine {new!r}"
            for old, new in itertools.zip_longest(said, is_so, fillvalue="nothing")
            if _KERNELS_OWN.sub("", old) != _KERNELS_OWN.sub("", new)
        ]
    return found


def table(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table as Markdown, and below it on which machine each figure was taken."""
    lines = ["| " + " | ".join(_HEADINGS) + " |", "| " + " | ".join("---" for _ in _HEADINGS) + " |"]
    for of_it in (of_it for of_it in kept.values() if "traits" in of_it):
        *traits, platforms = _cells(of_it["traits"])
        cells = [_name(of_it), *traits, *_figures(of_it), platforms]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    machines: dict[str, list[str]] = {}
    for of_it in kept.values():
        if "figures" not in of_it:
            continue
        machines.setdefault(machine_text(of_it["machine"]), []).append(_name(of_it))
    lines += ["", *(f"{', '.join(names)}: {machine}." for machine, names in machines.items())]
    for of_it in kept.values():
        if "figures" not in of_it:
            lines.append(f"{_name(of_it)}: not measured ({of_it['reason'].partition(': ')[0]}).")
    return "\n".join(lines)


def _cells(traits: Mapping[str, Any]) -> list[str]:
    """Return the cells that traits give."""
    return [
        traits["isolation"],
        _languages(traits),
        traits["packages"],
        _tools(traits),
        _network(traits),
        _limits(traits),
        _sessions(traits),
        ", ".join(_PLATFORMS[platform] for platform in traits["platforms"]),
    ]


def _languages(traits: Mapping[str, Any]) -> str:
    levels = {"full": "CPython", "none": "Python"}
    python = levels.get(traits["python"], f"Python ({traits['python']})")
    names = {"python": python, "javascript": "JavaScript", "typescript": "TypeScript", "rtfs": "RTFS"}
    return ", ".join(names[language] for language in traits["languages"])


def _tools(traits: Mapping[str, Any]) -> str:
    if not traits["tools"]:
        return "no"
    way = _WAYS[traits["tools_by"]]
    if not traits["await_tools"]:
        return f"plain calls, by {way}"
    return f"plain and `await`, by {way}" + ("" if traits["parallel_tools"] else ", one after the other")


def _network(traits: Mapping[str, Any]) -> str:
    return f"{traits['network']}; listed domains" if traits["domains"] else traits["network"]


def _limits(traits: Mapping[str, Any]) -> str:
    missing = [name for name in _LIMITS if name not in traits["enforced"]]
    if not missing:
        return "all"
    if len(missing) > len(_LIMITS) / 2:
        return "only " + ", ".join(f"`{name}`" for name in _LIMITS if name not in missing)
    return "all but " + ", ".join(f"`{name}`" for name in missing)


def _sessions(traits: Mapping[str, Any]) -> str:
    return "with forks" if traits["fork"] else "yes" if traits["sessions"] else "no"


def _name(of_it: Mapping[str, Any]) -> str:
    """Return how the engine is opened."""
    options = ", ".join(f'`{option}="{value}"`' for option, value in of_it.get("options", {}).items())
    return f"`{of_it['engine']}`" + (f" with {options}" if options else "")


def _is_emulated(of_it: Mapping[str, Any]) -> bool:
    return bool(of_it.get("machine", {}).get("emulated"))


def _figures(of_it: Mapping[str, Any]) -> list[str]:
    figures, cells = of_it.get("figures", {}), []
    mark = " (emulated)" if _is_emulated(of_it) else ""
    for name, unit in (("first run", "ms"), ("fresh run", "ms"), ("tool call", "µs")):
        cells.append(f"{_rounded(figures[name]['p50'])} {unit}{mark}" if name in figures else "–")
    return cells


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def draw(kept: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw how long a first and a fresh run take on each engine, on a scale of powers of ten."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "actbox"  # so that the same figures are the same picture
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    there = {name: of_it["figures"] for name, of_it in kept.items() if "figures" in of_it}
    names = sorted(there, key=lambda name: -there[name]["fresh run"]["p50"])
    shown = [f"{name} (emulated)" if _is_emulated(kept[name]) else name for name in names]
    drawing, axes = pyplot.subplots(figsize=(8, 0.9 + 0.45 * len(names)), layout="constrained")
    for place, (what, colour) in enumerate((("first run", "#c9d6df"), ("fresh run", "#1f6f8b"))):
        values = [there[name][what]["p50"] for name in names]
        heights = [position + 0.2 - 0.4 * place for position in range(len(names))]
        bars = axes.barh(heights, values, height=0.38, color=colour, label=what)
        axes.bar_label(bars, labels=[f"{_rounded(value)} ms" for value in values], padding=3, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 4)
    axes.set_yticks(range(len(names)), shown)
    axes.set_xlabel("milliseconds, each step ten times the one before")
    axes.legend(loc="lower right", frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    drawing.savefig(PICTURE, metadata={"Date": None})
    pyplot.close(drawing)
