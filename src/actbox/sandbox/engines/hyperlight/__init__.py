"""The `hyperlight` engine: runs each program in a virtual machine without an operating system, by hyperlight-sandbox.

`engine.py` is the sandbox, `options.py` the guest's options, and `check.py` says whether the engine works here.
`pool.py` keeps machines; `machine.py` is the host's handle on one, `worker.py` the process that has it, and `inside/`
the code in it. `evaluating.py` is one run, `program_requests.py` answers its program's requests, and `guest_files.py`
those about files.
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

    With the backend `wasm` the guest is CPython, unless `module` (a packaged guest, or a path) or `module_path` names
    another; the backend `javascript` has its own guest. `heap_size` and `stack_size` are the memory of a machine, as
    `"50Mi"` or a number of bytes; a program can use the stack's, less some 32 MiB. At most `machines` run at once;
    further programs wait. A machine has no network. Programs reach the policy's domains with `http_request`, through a
    proxy whose way out is `upstream`.

    Raises `InvalidValue`, `Unsupported`, and `SandboxUnavailable` for a package that is not installed.
    """
    options = GuestOptions.of(policy.limits, backend, module, module_path, heap_size, stack_size)
    check_installed(options)
    pool = Pool(options, checked_machines(machines, MOST_AT_ONCE))
    if not policy.domains:
        return HyperlightSandbox(policy, pool)
    from actbox.sandbox.embedded.http import make_proxy  # its dependencies take long to import

    return HyperlightSandbox(policy, pool, make_proxy(policy, upstream))
