"""What can be said of a machine, and the command line that comes of it. No machine is needed for that."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import AllowedDomain, InvalidValue, Policy, SandboxUnavailable, Unsupported
from actbox.sandbox.engines.ssh import SshTarget


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"host": ""}, "host='user@host'"),
        ({"host": "-oProxyCommand=id"}, "host"),
        ({"host": "user@-oProxyCommand=id"}, "host"),
        ({"host": "a b"}, "host"),
        ({"host": "a\nb"}, "host"),
        ({"host": "root@127.0.0.1:2222"}, r"host='root@127.0.0.1', port=2222"),
        ({"host": "a", "port": 0}, "port"),
        ({"host": "a", "port": "22"}, "port"),
        ({"host": "a", "key": ""}, "key"),
        ({"host": "a", "key": 'a"b'}, "key"),
        ({"host": "a", "connect_seconds": 0}, "connect_seconds"),
    ],
)
def test_what_names_no_machine_is_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        SshTarget(**given)


@pytest.mark.parametrize("option", ["key", "known_hosts"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, option: str) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(InvalidValue, match=f"there is no file with .* at {missing}"):
        actbox.open_sandbox("ssh", host="user@host", allow_unisolated=True, **{option: missing})
    missing.with_suffix(".pub").touch()  # of a key, that is all which is needed where ssh-agent holds the rest
    if option == "key":
        actbox.open_sandbox("ssh", host="user@host", allow_unisolated=True, key=missing)


def test_it_is_opened_only_when_that_is_meant() -> None:
    with pytest.raises(SandboxUnavailable, match="allow_unisolated=True"):
        actbox.open_sandbox("ssh", host="user@host")


def test_what_an_account_cannot_be_kept_from_is_refused() -> None:
    policy = Policy(domains=(AllowedDomain("example.com"),))
    with pytest.raises(Unsupported, match="the linux engine does"):
        actbox.open_sandbox("ssh", policy=policy, host="user@host", allow_unisolated=True)


def test_it_cannot_be_tried_without_a_machine_and_says_so() -> None:
    found = actbox.check("ssh")
    assert not found.works
    assert found.reason and "user@host" in found.advice


def test_ssh_understands_the_command_line_and_keeps_what_it_must() -> None:
    if shutil.which("ssh") is None:
        pytest.skip("there is no ssh command here: install openssh-client")
    target = SshTarget(host="user@machine", port=2222, key="/keys/one 100%", known_hosts="/known hosts", config="none")
    *options, dashes, host, command = target.command(["python3", "-c", "print('a b')"])
    assert (dashes, host, command) == ("--", "user@machine", """python3 -c 'print('"'"'a b'"'"')'""")
    shown = subprocess.run([*options, "-G", host], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in (
        "port 2222",
        "batchmode yes",
        "stricthostkeychecking true",
        "forwardagent no",
        "forwardx11 no",
        "clearallforwardings yes",
        "permitlocalcommand no",
        "identitiesonly yes",
        "serveraliveinterval 15",
        "userknownhostsfile /known hosts",
    ):
        assert any(line in said for said in shown), (line, shown)
