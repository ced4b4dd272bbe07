"""Which command containers are made with, and what is said of a container that somebody else has made."""

from __future__ import annotations

from pathlib import Path

import pytest

import actbox
from actbox import SandboxUnavailable
from actbox.sandbox.engines.container.client import CommandFailed, find_client
from actbox.sandbox.engines.container.existing_container import _lowered
from actbox.sandbox.engines.container.traits import brought_traits


def _command(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _podman(folder: Path, script: str, version: str = '{"Client": {"Version": "4.3.1"}}') -> None:
    """Make a command that says its version, as Podman can where it can do nothing else."""
    _command(folder, "podman", f"if [ \"$1\" = version ]; then echo '{version}'; exit 0; fi\n{script}")


def test_one_that_answers_goes_before_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _podman(tmp_path, "exit 125")
    _command(tmp_path, "docker", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_client().name == "docker"
    assert find_client(client="podman").name == "podman"
    _command(tmp_path, "docker", "exit 1")


def test_without_either_it_is_said_which_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="there is no podman and no docker here"):
        find_client()


def test_a_runtime_that_is_not_there_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _podman(tmp_path, "echo 'Error: default OCI runtime \"kata\" not found: invalid argument' >&2; exit 125")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CommandFailed, match=r"^podman has no runtime kata: install it .* or name another"):
        find_client(runtime="kata", client="podman").run("ps")
    _command(tmp_path, "docker", "echo 'docker: Error response: unknown or invalid runtime name: kata' >&2; exit 125")
    with pytest.raises(CommandFailed, match=r"^docker has no runtime kata: install it"):
        find_client(runtime="kata", client="docker").run("run")


def test_a_podman_that_uses_a_service_is_told_of_no_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _podman(tmp_path, "", version='{"Client": {"Version": "4.3.1"}, "Server": {"Version": "4.3.1"}}')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin:/usr/sbin:/sbin")
    client = find_client()
    assert (client.is_remote, client.is_local, client.flags) == (True, False, ())
    with pytest.raises(SandboxUnavailable, match="podman --runtime runsc system service"):
        find_client(runtime="runsc")


def test_whether_podman_uses_a_service_is_asked_again_where_it_is_told_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _command(
        tmp_path,
        "podman",
        """[ -z "$CONTAINER_CONNECTION" ] || server=', "Server": {"Version": "1"}'
echo '{"Client": {}'"$server"'}'""",
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CONTAINER_CONNECTION", raising=False)
    assert not find_client().is_remote
    monkeypatch.setenv("CONTAINER_CONNECTION", "there")
    assert find_client().is_remote


def test_a_podman_whose_service_is_not_there_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _command(tmp_path, "podman", "echo 'Cannot connect to Podman' >&2; exit 125")
    for needed in ("newuidmap", "newgidmap"):  # an ordinary user without them is advised to install them
        _command(tmp_path, needed, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match="Cannot connect to Podman"):
        find_client()
    found = actbox.check("container")
    assert (
        not found.works
        and "Cannot connect to Podman" in found.reason
        and ("podman info" in found.advice or "usermod --add-subuids" in found.advice)
    )


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({"Privileged": True}, "it is privileged"),
        ({"PidMode": "host"}, "it has the host's processes"),
        ({"NetworkMode": "host"}, "it has the host's network"),
        ({"CapAdd": ["SYS_ADMIN"]}, "capabilities were added: SYS_ADMIN"),
        ({"SecurityOpt": ["seccomp=unconfined"]}, "seccomp=unconfined was asked for"),
        ({"Devices": [{"PathOnHost": "/dev/fuse"}]}, "it has devices of the host"),
    ],
)
def test_a_container_without_its_walls_is_not_called_isolated(host: dict[str, object], said: str) -> None:
    assert _lowered(host) == (said,)
    traits = brought_traits(name="theirs", lowered=_lowered(host), network="")
    assert not traits.isolated and said in traits.isolation


def test_one_that_was_made_as_usual_is() -> None:
    usual = {"Privileged": False, "PidMode": "private", "NetworkMode": "none", "CapAdd": [], "SecurityOpt": []}
    assert _lowered(usual) == ()
    assert brought_traits(name="theirs", lowered=(), network="none").isolated
