"""What `actbox doctor` says of the client and its runtimes: in front of clients that answer as the real ones do."""

from __future__ import annotations

from pathlib import Path

import pytest

from actbox.sandbox.engines.container.check import client_and_runtimes
from actbox.sandbox.engines.container.client import Client, CommandFailed, find_client
from tests.conftest import engine_check


def program(folder: Path, name: str, answer: str = "") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_the_runtimes_of_podman_are_those_that_can_be_run(folder: Path) -> None:
    path = program(folder, "podman", "4.3.1 /usr/sbin/runc")
    for name in ("runc", "crun", "kata-runtime"):
        program(folder, name)
    assert client_and_runtimes(Client("podman", path)) == (
        f"client: podman 4.3.1 at {path}",
        "runtimes: crun, kata, runc (default); not here: runsc",
    )


def test_docker_says_which_runtimes_it_has(folder: Path) -> None:
    path = program(folder, "docker", "28.2.2 runc io.containerd.runc.v2 runc runsc")
    assert client_and_runtimes(Client("docker", path)) == (
        f"client: docker 28.2.2 at {path}",
        "runtimes: runc (default), runsc; not here: kata",
    )


def test_of_a_podman_elsewhere_only_what_it_says_is_known(folder: Path) -> None:
    program(folder, "runsc")
    path = program(folder, "podman", "4.3.1 crun")
    assert client_and_runtimes(Client("podman", path, is_remote=True))[1] == "runtimes: crun, at the other end"


def test_a_client_that_says_something_else_is_quoted(folder: Path) -> None:
    path = program(folder, "docker", "what?")
    with pytest.raises(CommandFailed, match=r"`docker info` answered 'what\?'"):
        client_and_runtimes(Client("docker", path))


@pytest.mark.engines
def test_the_real_client_says_which_runtimes_it_has() -> None:
    if not (works := engine_check("container")).works:
        pytest.skip(f"the container engine does not work here: {works.reason}")
    assert works.found == client_and_runtimes(find_client())
    assert "(default)" in works.found[1]
