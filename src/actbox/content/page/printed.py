"""What a program printed, with its colours."""

from __future__ import annotations

from actbox.content.ansi import PLAIN, Look, runs_of
from actbox.content.render import cut

from .markup import Markup, element, joined, text

SHOWN_CHARS = 200_000
"""Of longer output, beginning and end are shown."""


def printed(value: str, *, stream: str | None = None) -> Markup:
    """Return output as HTML; output on standard error is marked, in words as well as by colour."""
    body = joined(*(_run(piece, look) for piece, look in runs_of(cut(value, SHOWN_CHARS).removesuffix("\n"))))
    name = "standard error" if stream == "stderr" else "output"
    block = element(
        "pre", body, class_=f"out {stream}" if stream else "out", tabindex="0", role="group", aria_label=name
    )
    if stream != "stderr":
        return block
    return element("div", element("span", text("stderr"), class_="label"), block, class_="labelled stderr")


def _run(value: str, look: Look) -> Markup:
    shown = text(value)
    if look == PLAIN:
        return shown
    classes = [name for name in ("bold", "dim", "italic", "underline") if getattr(look, name)]
    styles = []
    for prefix, name, colour in (("c", "color", look.colour), ("b", "background", look.background)):
        if isinstance(colour, int):
            classes.append(f"{prefix}{colour}")
        elif colour is not None:
            styles.append(f"{name}:{colour}")
    return element("span", shown, class_=" ".join(classes) or None, style=";".join(styles) or None)
