"""Guests that run elsewhere, behind the two pipes of one process: in a container, or on another machine.

`agent.py` is the public face: `Agent.start` makes an agent of any command that runs a Python (3.9 or later) with the
pipes of its standard input and output; `Agent.start_guest` gives a `GuestProcess` like any other, and
`Agent.workspace` the files there. `connection.py` is the thread that carries the frames, `agent_guest.py` what guests
of an agent have in common, `guest.py` one that the agent carries for, `lent.py` one that was lent our own descriptors,
`files.py` one file operation, `workspace.py` the files as `LocalSandbox` uses them. What the agent does on its side is
in `guest/agent.py`. Nothing that comes from it is trusted: each size is bounded before memory is taken.
"""

from .agent import Agent, AgentConfig
from .guest import RemoteGuest
from .workspace import RemoteWorkspace

__all__ = ["Agent", "AgentConfig", "RemoteGuest", "RemoteWorkspace"]
