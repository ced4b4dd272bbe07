"""Spare descriptors: held while a program runs, kept for the next one, and closed where others are few."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from actbox.sandbox.guest.spare_descriptors import SpareDescriptors


@pytest.fixture
def spare():
    made = SpareDescriptors()
    yield made
    made.release()


def test_they_stay_for_the_next_program(spare: SpareDescriptors):
    with spare:
        first = list(spare._held)
    assert len(first) == 8
    with spare:
        assert spare._held == first
    spare.release()
    assert not any(map(is_open, first))


def test_they_are_closed_after_a_failure(spare: SpareDescriptors):
    with pytest.raises(KeyError), spare:
        held = list(spare._held)
        raise KeyError
    assert not any(map(is_open, held))


def test_a_number_that_the_program_has_taken_is_not_closed(spare: SpareDescriptors):
    with spare:
        held = list(spare._held)
        with open(__file__, "rb") as file:
            os.dup2(file.fileno(), held[-1])
    try:
        assert [number for number in held if is_open(number)] == held[-1:]
        with spare:
            assert len(spare._held) == 8
            assert held[-1] not in spare._held
    finally:
        os.close(held[-1])


def test_they_are_closed_where_the_program_has_left_few_others():
    script = (
        "import os, resource\n"
        "from actbox.sandbox.guest.spare_descriptors import spare\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "with spare:\n"
        "    held = list(spare._held)\n"
        "    kept = []\n"
        "    try:\n"
        "        while True:\n"
        "            kept.append(os.dup(0))\n"
        "    except OSError:\n"
        "        pass\n"
        "print(len(held), len({os.dup(0) for _ in held} & set(held)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "8 8\n"


def test_few_are_held_where_few_are_allowed():
    script = (
        "import resource\n"
        "from actbox.sandbox.guest.spare_descriptors import spare\n"
        "with spare:\n"
        "    pass\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n"
        "with spare:\n"
        "    print(len(spare._held))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
