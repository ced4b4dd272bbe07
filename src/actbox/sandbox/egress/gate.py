"""The host's end of one guest's network: the proxy serves the guest's sockets as long as the guest lives."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
from collections.abc import Callable, Sequence

from actbox.core.events import NetworkRequest
from actbox.sandbox.taint import Taint

from .inside import Way
from .name_server import answer_datagrams
from .proxy import EgressProxy

_log = logging.getLogger("actbox")


class Gate:
    """The network of one guest; must be used in the event loop in which it was made, unless stated otherwise."""

    def __init__(
        self,
        proxy: EgressProxy,
        ways: Sequence[Way],
        report: Callable[[NetworkRequest], None],
        taint: Taint | None = None,
    ) -> None:
        self._proxy = proxy
        self._ways = ways
        self._quota = proxy.new_quota(report, taint)
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    def open_soon(self, descriptors: list[int]) -> None:
        """Start serving these sockets, one for each way, which the gate takes over. May be called from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._open, descriptors)
        except RuntimeError:  # the event loop is closed, and with it the run
            _close(descriptors)

    @property
    def is_over(self) -> bool:
        """True once it serves nothing any more."""
        return self._closed and all(task.done() for task in self._tasks)

    def end(self) -> None:
        """Start closing all connections."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Close all connections; returns when each has been reported."""
        self.end()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._quota.report_rest()

    def _open(self, descriptors: list[int]) -> None:
        if self._closed:
            _close(descriptors)
            return
        for number, (way, descriptor) in enumerate(zip(self._ways, descriptors, strict=True)):
            try:
                listener = socket.socket(fileno=descriptor)
            except OSError as error:  # the program's connections are refused
                _log.error("a program gets no network: %s", error)
                _close(descriptors[number:])
                return
            task = self._loop.create_task(self._serve(listener, way))
            task.add_done_callback(functools.partial(_close_listener, listener))
            self._tasks.append(task)

    async def _serve(self, listener: socket.socket, way: Way) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            if way.datagrams:
                await answer_datagrams(listener, self._quota)
            else:
                await self._proxy.serve(listener, way.kind, self._quota, way.port)


def _close_listener(listener: socket.socket, _: asyncio.Task[None]) -> None:
    listener.close()  # a task that was cancelled before it began has not closed it


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
