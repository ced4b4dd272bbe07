"""A sandbox for the tests of the kit's command to name."""

from __future__ import annotations

import actbox
from actbox import Policy, Sandbox


def open_box(policy: Policy) -> Sandbox:
    return actbox.open_sandbox("process", policy=policy, allow_unisolated=True)


def open_told(policy: Policy, *, say: list[int], name: str) -> Sandbox:
    raise actbox.Unsupported(f"told {say!r} and {name!r}")


async def open_box_later(policy: Policy) -> Sandbox:
    return open_box(policy)


def no_box(policy: Policy) -> str:
    return "no box"
