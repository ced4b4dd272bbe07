"""RTFS: a small pure language whose programs can touch nothing, so that they need no sandbox.

`evaluate` and `evaluate_async` run a program within a `Budget`; `Interpreter` keeps definitions from one program to
the next. A `Host` answers a program's calls; without a host, a program can call nothing.
"""

from .budget import Budget
from .errors import ReadError
from .evaluator import Interpreter, evaluate, evaluate_async
from .failures import BudgetExhausted, RtfsError
from .host import PURE, Controlled, Host, HostCallFinished, HostCallStarted, HostEvent, ToolHost
from .values import List, Map, Value, Vector

__all__ = [
    "PURE",
    "Budget",
    "BudgetExhausted",
    "Controlled",
    "Host",
    "HostCallFinished",
    "HostCallStarted",
    "HostEvent",
    "Interpreter",
    "List",
    "Map",
    "ReadError",
    "RtfsError",
    "ToolHost",
    "Value",
    "Vector",
    "evaluate",
    "evaluate_async",
]
