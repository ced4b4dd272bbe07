"""The `hyperlight` engine: a virtual machine without an operating system for each program, by hyperlight-sandbox.

`engine.py` is the sandbox, `options.py` what runs in its machines, `check.py` whether they can be had. `pool.py` keeps
them; `machine.py` is the host's end of one, `worker.py` the process that has it, and `inside/` what runs in it.
`evaluating.py` is one run, `conversation.py` answers what its program asks, `guest_files.py` does so for files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actbox.core.policy import Policy

from .check import check
from .engine import HyperlightSandbox, checked_machines
from .options import GuestOptions, check_installed
from .pool import MOST_AT_ONCE, Pool

if TYPE_CHECKING:
    from actbox.sandbox.egress.upstream import Upstream

__all__ = ["HyperlightSandbox", "check", "open_engine"]


def open_engine(
    policy: Policy,
    upstream: Upstream | None,
    *,
    backend: str = "wasm",
    module: str | None = None,
    module_path: str | None = None,
    heap_size: str | int | None = None,
    stack_size: str | int | None = None,
    machines: int | None = None,
) -> HyperlightSandbox:
    """Return a sandbox.

    `backend` is `wasm`, whose guest is CPython unless another is named by `module` (a packaged one, or a path) or
    `module_path`, or `javascript`, which brings its own. `heap_size` and `stack_size` are a machine's memory, as
    `"50Mi"` or a number of bytes: a program has about the stack's, less 30 MiB. `machines` is how many run at once;
    others wait. Nothing in a machine reaches a network by itself: for the policy's domains programs have
    `http_request`, whose way to hosts is `upstream`.

    Raises `InvalidValue`, `Unsupported`, and `SandboxUnavailable` for a package that is not installed.
    """
    options = GuestOptions.of(policy.limits, backend, module, module_path, heap_size, stack_size)
    check_installed(options)
    pool = Pool(options, checked_machines(machines, MOST_AT_ONCE))
    if not policy.domains:
        return HyperlightSandbox(policy, pool)
    from actbox.sandbox.embedded.http import make_proxy  # what it needs takes long to import

    return HyperlightSandbox(policy, pool, make_proxy(policy, upstream))
