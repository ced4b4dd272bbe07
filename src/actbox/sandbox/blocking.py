"""Threads for the sandbox's own blocking steps, apart from those of tools: slow tools must not delay a run."""

from __future__ import annotations

from actbox.tools.threads import ThreadPool

_pool = ThreadPool()

run_blocking = _pool.run
"""Call a function in a thread and return what it returns; when the caller is cancelled the call goes on, unheard."""
