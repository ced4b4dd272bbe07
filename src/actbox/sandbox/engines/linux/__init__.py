"""The `linux` engine: namespaces, a filter of system calls and limits around a guest forked from a nursery.

`engine.py` is the sandbox, `nursery.py` the host's handle on the process that guests are forked from, `cgroups.py` the
limits that hold for a whole tree, `check.py` whether all of that is to be had on this machine.
"""

from .check import check
from .engine import LinuxSandbox

__all__ = ["LinuxSandbox", "check"]
