from __future__ import annotations

import json
import subprocess
import sys

import pytest

from actbox.cli.doctor_table import print_findings
from actbox.cli.finding import Finding
from actbox.core.limits import Limits
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.opening import ENGINES, check
from actbox.sandbox.traits import EngineCheck

# Those that are tried in seconds; all together take a minute. What doctor asks of linux, tests/sandbox/test_trial.py
# asks as well.
FAST = ("monty", "rtfs")


@pytest.mark.parametrize("named", [FAST, pytest.param((), marks=pytest.mark.engines)])
def test_the_document_has_every_engine_and_a_trial_of_every_limit(named):
    command = [sys.executable, "-m", "actbox", "doctor", "--json", *named]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    found = json.loads(done.stdout)
    engines = {engine["engine"]: engine for engine in found["engines"]}
    assert tuple(engines) == (named or ENGINES)
    for engine in engines.values():
        if engine["works"]:
            assert {report["limit"] for report in engine["limits"]} == set(Limits().to_dict())
        else:
            assert engine["reason"]
    assert engines["rtfs"]["isolates"]
    strongest = next((name for name in FULL_CPYTHON if name in engines and engines[name]["isolates"]), None)
    if named:
        assert "auto" not in found  # which other engines may decide
        assert done.returncode == 0
    else:
        assert found["auto"] == strongest
        assert done.returncode == (0 if strongest else 1)


def test_an_engine_alone_can_be_tried(actbox):
    done = actbox("doctor", "rtfs")
    assert done.returncode == 0
    assert b"rtfs: works" in done.stdout and b"linux" not in done.stdout
    assert not done.stdout.decode().rstrip().splitlines()[-1].startswith(("actbox uses", "No engine"))
    ssh = actbox("doctor", "ssh")  # of full CPython, and isolates nothing
    assert ssh.returncode == 1
    assert b"actbox uses" not in ssh.stdout and b"No engine of full CPython" not in ssh.stdout
    unknown = actbox("doctor", "docker")
    assert (unknown.returncode, b"there is no engine docker" in unknown.stderr) == (2, True)
    assert b"docker is a client of the container engine" in unknown.stderr


@pytest.mark.parametrize("works", [True, False])
def test_what_an_engine_uses_of_the_machine_is_in_the_table_and_the_document(capsys, works):
    finding = Finding(EngineCheck(engine="container", works=works, found=("client: podman", "runtimes: [runc]")))
    print_findings([finding])
    assert "\n  client: podman\n  runtimes: [runc]\n" in capsys.readouterr().out
    assert finding.to_dict()["found"] == ["client: podman", "runtimes: [runc]"]


@pytest.mark.long  # each trial once more
def test_the_table_says_what_works_in_words(actbox):
    done = actbox("doctor")
    text = done.stdout.decode()
    for engine in ENGINES:
        assert f"{engine}: {'works' if check(engine).works else 'does not work here'}" in text
    assert "process: works, and does not isolate" in text
    assert all(any(line.startswith(limit + " ") for line in text.splitlines()) for limit in Limits().to_dict())
    assert "\x1b" not in text


@pytest.mark.long  # each trial of the other engines once more
def test_where_namespaces_are_forbidden_it_names_the_setting_and_fails():
    # A user namespace of its own, in which no further one may be made: the limit is counted for each namespace.
    inside = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    arguments = ["unshare", "--user", "--map-root-user", "sh", "-c", inside, "sh"]
    try:
        subprocess.run([*arguments, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespace can be made and closed here, to see what doctor says in it")
    done = subprocess.run(
        [*arguments, sys.executable, "-m", "actbox", "doctor"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "linux: does not work here" in done.stdout and "user.max_user_namespaces" in done.stdout
    assert "No engine of full CPython isolates programs" in done.stdout
