"""An encrypted connection that is passed through unread, within its entry's bounds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine

from actbox.core.domains import AllowedDomain

from .clearance import Clearance
from .incoming import ClientGone
from .pace import Pace, Share, steps_for
from .record import Record
from .refusal_responses import Denied, request_too_large, response_too_large
from .streams import ByteStream, TcpStream


async def pass_through(
    client: ByteStream,
    first: bytes,
    sock: socket.socket,
    entry: AllowedDomain,
    clearance: Clearance,
    record: Record,
    idle: float,
    pace: Pace,
) -> None:
    """Carry bytes both ways until both sides have finished; `first` goes to the host before anything else.

    Raises `Denied` if a bound is reached, the sandbox has a label for which the host is not cleared, or no data moves
    for `idle` seconds, and `ClientGone`.
    """
    host = await TcpStream.of(sock)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle) as patience:

            def sent(count: int) -> None:
                clearance.check()
                patience.reschedule(loop.time() + idle)
                record.sent_bytes += count
                if record.sent_bytes > entry.request_bytes:
                    raise request_too_large(entry)

            def received(count: int) -> None:
                patience.reschedule(loop.time() + idle)
                record.received_bytes += count
                if record.received_bytes > entry.response_bytes:
                    raise response_too_large(entry)

            sent(len(first))
            await host.write(first)
            await _both(_pump(client, host, sent, pace.share()), _pump(host, client, received, pace.share()))
            await host.close()
    except TimeoutError:
        raise Denied(504, f"Nothing moved for {idle:g} seconds.", by_policy=False) from None
    except ConnectionError:
        raise ClientGone from None
    finally:
        host.abort()


async def _pump(source: ByteStream, sink: ByteStream, count: Callable[[int], None], share: Share) -> None:
    while data := await source.read():
        count(len(data))
        await share.take(steps_for(len(data)))
        await sink.write(data)
    await sink.finish()


async def _both(*ways: Coroutine[None, None, None]) -> None:
    """Run both coroutines until both have ended or one fails, and leave neither running."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
