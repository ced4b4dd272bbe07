"""A kernel of Python: runs each line of JSON that it reads as a piece of code, in one namespace that lasts."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import signal
import sys
import traceback
import types
from typing import Any

SHOWN: list[tuple[str, str]] = []


class Image:
    """As `IPython.display.Image`, of which the kernel hands on what `display` is given."""

    def __init__(self, data: bytes, format: str = "png") -> None:
        self.data, self.format = data, format


def display(image: Image) -> None:
    """Show an image beside the output."""
    SHOWN.append((f"image/{image.format}", image.data.hex()))


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    shown = types.ModuleType("IPython.display")
    shown.__dict__.update(Image=Image, display=display)
    sys.modules["IPython"] = types.ModuleType("IPython")
    sys.modules["IPython.display"] = shown
    namespace: dict[str, Any] = sys.modules["__main__"].__dict__
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in requests:
        out, err = io.StringIO(), io.StringIO()
        failed = False
        SHOWN.clear()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                tree = ast.parse(json.loads(line), "<cell>")
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, "<cell>", "exec"), namespace)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
                    if value is not None:
                        print(repr(value))
            except BaseException:
                failed = True
                traceback.print_exc()
        told = {"stdout": out.getvalue(), "stderr": err.getvalue(), "failed": failed, "shown": SHOWN}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
