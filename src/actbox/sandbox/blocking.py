"""Threads for the sandbox's own blocking calls, separate from those of tools: slow tools must not delay runs."""

from __future__ import annotations

from actbox.tools.threads import ThreadPool

_pool = ThreadPool()

run_blocking = _pool.run
"""Call a function in a thread and return its result; if the caller is cancelled, the call goes on without it."""
