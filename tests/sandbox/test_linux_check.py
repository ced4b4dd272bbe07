"""What `check("linux")` and `open_sandbox("linux")` say where the machine lets them do a part of it only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from actbox.sandbox.engines.container.image import host_root
from tests.conftest import engine_check
from tests.engines.container.containers import needs

_ASKS = """
import json, sys
sys.path[:0] = PATHS
import actbox
found = actbox.check("linux")
said = []
for _ in range(2):
    try:
        with actbox.sync.open_sandbox("linux") as box:
            said.append(box.run("6 * 7").value)
    except actbox.SandboxUnavailable as error:
        said.append(str(error))
print(json.dumps([found.works, found.reason, found.advice, said]))
"""
SECCOMP, UNMASK = "--security-opt seccomp=unconfined", "--security-opt unmask=ALL"


def asking() -> list[str]:
    """Return the arguments with which Python tries the engine."""
    return ["-c", _ASKS.replace("PATHS", repr([path for path in sys.path if path]))]


@pytest.mark.slow
def test_a_sandbox_does_not_open_where_a_part_of_proc_is_hidden_and_says_so() -> None:
    """The nursery starts there, and its guests get no `/proc` of their own."""
    if os.geteuid() != 0 or not engine_check("linux").works:
        pytest.skip("needs the linux engine, and root to hide a part of /proc")
    hide = 'mount --bind /dev/null /proc/version && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", hide, "sh", sys.executable, *asking()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    works, reason, advice, said = json.loads(done.stdout)
    assert not works
    assert "could not be closed around the program" in reason
    assert "unmask=ALL" in advice or "systempaths=unconfined" in advice  # as a mark says which runtime is here
    assert [reason in sentence and advice in sentence for sentence in said] == [True, True]


@pytest.mark.engines
@pytest.mark.parametrize(
    ("given", "user", "lacking"),
    [
        ("", "", f"{SECCOMP} {UNMASK}"),
        ("", "1000", f"{SECCOMP} {UNMASK}"),
        (SECCOMP, "", UNMASK),
        (SECCOMP, "1000", UNMASK),
        (UNMASK, "", SECCOMP),
        (UNMASK, "1000", SECCOMP),
        (f"{SECCOMP} --security-opt unmask=/proc/sys", "", UNMASK),
        (f"{SECCOMP} {UNMASK} --cap-drop ALL", "", "--user 1000"),
        (f"{SECCOMP} {UNMASK}", "", None),
        (f"{SECCOMP} {UNMASK} --cap-drop ALL --security-opt no-new-privileges", "1000", None),
        ("--privileged", "", None),
    ],
)
def test_in_a_container_the_advice_names_what_is_missing(given: str, user: str, lacking: str | None) -> None:
    works, _, advice, said = ask_in_container([*given.split(), *(["--user", user] if user else [])])
    if lacking is None:
        assert (works, said) == (True, [42, 42])
    else:
        assert not works
        assert advice.startswith(f"Give `podman run` the options `{lacking}`;")
        assert all(advice in str(sentence) for sentence in said)


@pytest.mark.engines
def test_in_a_pod_the_advice_names_the_fields_and_that_they_were_not_tried() -> None:
    _, _, advice, _ = ask_in_container(["--env", "KUBERNETES_SERVICE_HOST=10.0.0.1", *UNMASK.split()])
    assert "securityContext needs `seccompProfile: {type: Unconfined}` (" in advice
    assert "not tried" in advice and "procMount" not in advice


def ask_in_container(options: Sequence[str]) -> tuple[bool, str, str, list[object]]:
    """Return what Podman's container with these options makes of the engine."""
    client = needs()
    if not client.is_local:
        pytest.skip("needs a Podman of this machine")
    root = host_root(client)
    shown = [*root.mounts, *((path, path) for path in sys.path if Path(path).is_dir())]
    volumes = [part for host, inside in dict.fromkeys(shown) for part in ("--volume", f"{host}:{inside}:ro")]
    said = client.run(
        *("run", "--rm", "--network", "none", "--pull", "never", *options),
        *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000", "--tmpfs", "/tmp:rw,exec,mode=1777"),
        *(*volumes, root.image, root.python, *asking()),
        seconds=120,
    )
    answer: tuple[bool, str, str, list[object]] = json.loads(said)
    return answer
