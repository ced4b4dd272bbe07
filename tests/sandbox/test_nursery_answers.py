"""A nursery answers each request, also if whoever asked has given up waiting: nobody else gets that answer."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from actbox import SandboxUnavailable
from actbox.sandbox.engines.linux.descriptors import close_all
from actbox.sandbox.engines.linux.interpreter import Base
from actbox.sandbox.engines.linux.nursery import Nursery
from actbox.sandbox.nursery.passing import receive, send
from tests.conftest import engine_check
from tests.contract.left_behind import descriptors


class Interrupted(BaseException):
    """An exception of a signal's handler, which can be raised anywhere."""


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    if not (found := engine_check("linux")).works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")
    nursery = Nursery(Base())
    nursery.open()
    yield nursery
    nursery.close()


def opened_mib(nursery: Nursery, size_mib: int) -> int:
    """Ask for a workspace of this size; return the size of what the answer holds."""
    _, descriptors = nursery.ask(
        "open_workspace", name=os.urandom(16).hex(), host_id=-1, size_mib=size_mib, inodes=100, runs=0
    )
    try:
        system = os.fstatvfs(descriptors[0])
        return system.f_blocks * system.f_frsize // 2**20
    finally:
        close_all(descriptors)


def test_who_is_interrupted_before_the_answer_leaves_it_to_nobody_else(nursery: Nursery) -> None:
    with mock.patch.object(Nursery, "_hear", side_effect=Interrupted), pytest.raises(Interrupted):
        opened_mib(nursery, 1)
    pid = nursery.pid
    assert [opened_mib(nursery, size) for size in (2, 3)] == [2, 3]
    assert nursery.pid == pid


@pytest.mark.parametrize("error", [Interrupted(), SandboxUnavailable("it takes too long")])
def test_what_a_nursery_says_when_nobody_waits_for_its_start_is_no_answer(
    nursery: Nursery, error: BaseException
) -> None:
    process = nursery._process
    assert process is not None
    process.kill()
    process.wait()
    with mock.patch.object(Nursery, "_await_start", side_effect=error), pytest.raises(type(error)):
        opened_mib(nursery, 1)
    assert [opened_mib(nursery, size) for size in (2, 3)] == [2, 3]


def test_an_answer_that_cannot_be_read_leaves_no_descriptors(nursery: Nursery) -> None:
    opened_mib(nursery, 1)
    before = descriptors()
    with mock.patch.object(json, "loads", side_effect=MemoryError), pytest.raises(MemoryError):
        opened_mib(nursery, 1)
    assert descriptors() == before
    assert opened_mib(nursery, 2) == 2


def test_a_message_for_which_there_is_no_memory_leaves_no_descriptors() -> None:
    class Full(bytearray):
        def __getitem__(self, key: Any) -> Any:
            raise MemoryError

    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        before = descriptors()
        send(there, {}, [0, 0])
        with pytest.raises(MemoryError):
            receive(here, room=Full(1024))  # type: ignore[arg-type]
        assert descriptors() == before
