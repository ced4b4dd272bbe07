"""Guests that run elsewhere, behind the two pipes of one process: in a container, or on another machine.

`sandbox.py` has the sandbox of every engine with an agent, which adds how to start one. `agent.py` is the handle
on an agent: `Agent.start` makes an agent of any command that runs a Python (3.9 or later) with pipes as its standard
input and output; `Agent.start_guest` returns a `GuestProcess` like any other, and `Agent.workspace` the files there.
`connection.py` is the thread that carries the frames, `agent_guest.py` the common part of an agent's guests, `guest.py`
a guest whose data the agent carries, `lent.py` one that uses descriptors lent by us, `files.py` one file operation,
`workspace.py` the files as `LocalSandbox` uses them. The agent's own code is in `guest/agent.py`. Nothing that it sends
is trusted: each size is bounded before memory is allocated.
"""

from .agent import Agent, AgentConfig
from .guest import RemoteGuest
from .sandbox import AgentPlace, AgentSandbox
from .workspace import RemoteWorkspace

__all__ = ["Agent", "AgentConfig", "AgentPlace", "AgentSandbox", "RemoteGuest", "RemoteWorkspace"]
