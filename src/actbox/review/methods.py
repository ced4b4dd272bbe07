"""Methods that count by their names, whatever object has them: most objects of a program are not known to a reader."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from .catalogue import REACHING, rule_of
from .values import Ref, Text, Values

METHODS: Final[Mapping[str, str]] = {
    # of an event loop
    "subprocess_exec": "process",
    "subprocess_shell": "process",
    "connect_accepted_socket": "network",
    "create_connection": "network",
    "create_datagram_endpoint": "network",
    "create_server": "network",
    "create_unix_connection": "network",
    "create_unix_server": "network",
    "getaddrinfo": "network",
    "getnameinfo": "network",
    "sock_connect": "network",
    "sock_sendto": "network",
    # of a database's connection
    "enable_load_extension": "native",
    "load_extension": "native",
    # of loaders and interpreters
    "exec_module": "code",
    "load_module": "code",
    "run_cell": "code",
    "run_cell_magic": "code",
    "run_line_magic": "code",
    "runcode": "code",
    "runsource": "code",
    "loadTestsFromName": "dynamic",
    "loadTestsFromNames": "dynamic",
}
"""Names that are telling enough by themselves, with the rules that they meet."""

EXPRESSIONS: Final = frozenset(["eval", "query"])
"""Methods of a data frame that run the text that they are given."""

_REACHES_OUT: Final = re.compile(r"__|@\s*\w+\s*[.\[]")
"""What an expression over columns is not: an attribute of a name of the program's, or a name of the interpreter's."""


def telling(node: ast.Attribute, values: Values, own: frozenset[str]) -> str | None:
    """Return the rule that an attribute meets by its name, where nothing better is known of it.

    `values` is what the attribute may be, `own` the names of the methods that the program defines.
    """
    if node.attr not in METHODS:
        return None
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and node.attr in own:
        return None
    better = values and all(isinstance(value, Ref) and rule_of(value.path) for value in values)
    return None if better else METHODS[node.attr]


def runs_text(texts: Values, *, frames: bool) -> bool:
    """Return whether `.eval` or `.query` of these texts does more than reckon with columns.

    `frames` says whether the program uses data frames: without, what is not known may be anything, such as a query of
    a database.
    """
    return any(
        bool(_REACHES_OUT.search(value.text)) or (frames and not value.whole) if isinstance(value, Text) else frames
        for value in texts
    )


def reached(text: str) -> Iterator[str]:
    """Yield the telling names in a dotted path, or in the fields of a format such as `{0.__init__.__globals__}`."""
    for name in re.findall(r"\w+", text):
        if name in REACHING:
            yield name
