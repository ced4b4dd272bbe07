"""The event loop of a background thread, on which the sandboxes of the synchronous API run.

Other threads wait for it, as in `call`. They hold no lock meanwhile that the background thread takes: garbage may be
collected wherever they wait, and a finalizer may want the event loop too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from .core.after_fork import in_a_forked_child
from .core.errors import InvalidValue

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class _Portal:
    """A daemon thread with an event loop; a forked process makes a new one."""

    def __init__(self) -> None:
        import asyncio

        self.owner = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="actbox-sync", daemon=True).start()

    def _run(self) -> None:
        while not self._serves_to_the_end():
            pass
        self.loop.close()

    def _serves_to_the_end(self) -> bool:
        """Run the event loop and return True once it was stopped, False if a `KeyboardInterrupt` or `SystemExit`
        interrupted it.
        """
        try:
            self.loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            return False
        return True


_portal: _Portal | None = None
# Reentrant: garbage collection may run in this thread while a loop is being made, and a finalizer that needs the loop
# then makes it.
_making = threading.RLock()


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the background thread, which lives as long as the process."""
    global _portal
    portal = _portal  # without the lock, which a thread may hold while a finalizer in it waits for this event loop
    if portal is None or portal.owner != os.getpid():
        with _making:
            if _portal is None or _portal.owner != os.getpid():
                made = _Portal()
                if _portal is None or _portal.owner != made.owner:
                    _portal = made
                else:
                    made.loop.call_soon_threadsafe(made.loop.stop)
            portal = _portal
    return portal.loop


def _forget_lock() -> None:
    global _making
    _making = threading.RLock()


in_a_forked_child(_forget_lock)  # another thread of the parent may have held it


def _is_background() -> bool:
    """Return True in the background thread, which would deadlock if it waited for its own event loop."""
    import asyncio

    try:
        return asyncio.get_running_loop() is background_loop()
    except RuntimeError:  # no event loop runs in this thread
        return False


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, run in the background event loop. Blocks; Ctrl-C cancels it."""
    import asyncio
    from concurrent.futures import CancelledError

    if _is_background():
        coroutine.close()
        raise InvalidValue(
            "an asynchronous tool or callback called the synchronous API in the event loop that this API waits for. "
            "Await `actbox.open_sandbox(…)` there, or write the tool as a plain function, which gets a thread"
        )
    loop = background_loop()
    waiting = threading.Lock()  # a `concurrent.futures.Future` has a lock that both threads take
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        tasks.append(loop.create_task(coroutine))
        tasks[0].add_done_callback(tell)

    def tell(task: asyncio.Task[T]) -> None:
        _ = task.cancelled() or task.exception()  # it is no news to the event loop, also if nobody waits any more
        waiting.release()

    waiting.acquire()
    try:
        loop.call_soon_threadsafe(begin)
        waiting.acquire()
    except BaseException:
        if not (tasks and tasks[0].done()):  # Ctrl-C: the run ends before we do
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            waiting.acquire(timeout=5)
        raise
    try:
        return tasks.pop().result()
    except asyncio.CancelledError as error:
        raise CancelledError from error


_closing: set[asyncio.Task[None]] = set()


def close(closing: Coroutine[Any, Any, None]) -> None:
    """Run a closing coroutine and wait for it; in a thread that must not wait, only start it.

    Such are the background thread and the library's others but those of tools: the closing waits for what they do, and
    anybody's garbage may be collected there.
    """
    name = threading.current_thread().name
    if _is_background() or (name.startswith("actbox-") and name != "actbox-tool"):
        close_soon(lambda: closing)
    else:
        call(closing)


def close_soon(close: Callable[[], Awaitable[None]]) -> None:
    """Start what closes something, and do not wait for it. An error in it is logged."""
    loop = background_loop()

    def begin() -> None:
        task = loop.create_task(_closed(close()))
        _closing.add(task)  # an event loop holds its tasks weakly
        task.add_done_callback(_closing.discard)

    loop.call_soon_threadsafe(begin)


async def _closed(closing: Awaitable[None]) -> None:
    try:
        await closing
    except Exception:
        import logging

        logging.getLogger("actbox").exception("what a finalizer, a tool or a callback closed could not be closed")
