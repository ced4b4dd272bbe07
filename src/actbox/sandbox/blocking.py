"""Threads for the sandbox's own blocking calls, separate from those of tools: slow tools must not delay runs."""

from __future__ import annotations

from actbox.tools.threads import ThreadPool

run_blocking = ThreadPool(name="actbox-blocking").run
"""Call a function in a thread and return its result; if the caller is cancelled, the call goes on without it.

A finalizer in such a thread waits for nothing: see `sync`.
"""
run_given = ThreadPool().run
"""Do the same with a function that a caller gave, in a thread like those of tools, where it may wait for sandboxes."""
