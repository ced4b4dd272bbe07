from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actbox.cli import doctor
from actbox.cli.doctor_report import Finding, print_as_found
from actbox.core.limits import Limits
from actbox.sandbox.engines.node.binary import Node
from actbox.sandbox.engines.node.traits import lacking
from actbox.sandbox.languages import FULL_CPYTHON
from actbox.sandbox.opening import ENGINES, check
from actbox.sandbox.traits import EngineCheck
from actbox.sandbox.trial import TrialReport

# Those that are tried in seconds; all together take a minute. What doctor asks of linux, tests/sandbox/test_trial.py
# asks as well.
FAST = ("monty", "rtfs")


@pytest.mark.slow
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


@pytest.mark.slow
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
    print_as_found([finding], full=True, with_verdict=False)
    assert "\n  client: podman\n  runtimes: [runc]\n" in capsys.readouterr().out
    assert finding.to_dict()["found"] == ["client: podman", "runtimes: [runc]"]


@pytest.mark.slow
def test_each_engine_has_one_line_which_says_what_it_lacks(actbox):
    lines = actbox("doctor", "process", "ssh", "rtfs").stdout.decode().splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == ["ssh", "process", "rtfs"]
    assert lines[0].startswith("ssh: does not work here: ") and ". What to do: open_sandbox('ssh'" in lines[0]
    assert lines[1].startswith("process: works, and does not isolate — programs run as")
    assert "not enforced: cpus" in lines[1]
    assert lines[2].startswith("rtfs: works — ") and "not enforced" not in lines[2]
    assert "--full" in lines[3]


@pytest.mark.slow
def test_a_wrong_number_of_runs_is_what_the_advice_is_about(actbox):
    lines = (
        actbox("doctor", "linux", "process", env={**os.environ, "ACTBOX_MAX_RUNS": "x"}).stdout.decode().splitlines()
    )
    said = "ACTBOX_MAX_RUNS must be a whole number above zero, not 'x'. What to do: Set ACTBOX_MAX_RUNS to"
    assert [line.partition(":")[0] for line in lines if said in line] == ["linux", "process"]


@pytest.mark.parametrize("strongest", ["linux", None])
def test_the_verdict_comes_first(capsys, monkeypatch, strongest):
    kept = TrialReport(limit="host files", what="read one", verdict="holds")
    traits = check("linux").traits
    finding = Finding(EngineCheck(engine="linux", works=bool(strongest), traits=traits), isolation=(kept,))
    monkeypatch.setattr(doctor, "_find_out", lambda engine: finding)
    for full in (True, False):
        doctor.examine([], full=full, as_json=False)
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith("actbox uses the linux engine here." if strongest else "No engine of full CPython")


@pytest.mark.parametrize(
    ("strongest", "printed"),
    [
        ("linux", [[], ["linux"], ["linux", "process"], ["linux", "process", "rtfs"]]),
        (None, [[], [], ["linux", "process"], ["linux", "process", "rtfs"]]),  # the verdict waits for the last of them
    ],
)
def test_a_line_is_printed_as_soon_as_it_and_the_verdict_are_known(capsys, strongest, printed):
    traits = check("rtfs").traits
    seen, text = [], ""

    def look():
        nonlocal text
        text += capsys.readouterr().out
        seen.append([line.partition(":")[0] for line in text.splitlines() if ": " in line])

    def tried():
        for engine in ("linux", FULL_CPYTHON[-1], "rtfs"):
            look()
            kept = TrialReport(limit="host files", what="read one", verdict="holds")
            works = engine in (strongest, "rtfs")
            yield Finding(EngineCheck(engine=engine, works=works, traits=traits), isolation=(kept,))

    print_as_found(tried(), full=False, with_verdict=True)
    look()
    assert seen == printed
    assert ("By name there is rtfs." in text) is (strongest is None)


def test_what_an_engine_lacks_and_what_to_do_stands_in_its_line(capsys):
    old = Node(Path("/usr/bin/node"), (20, 20, 2))
    found = EngineCheck(
        engine="node", works=True, reason=lacking(old), advice="pip install it", traits=check("rtfs").traits
    )
    for full in (False, True):
        print_as_found([Finding(found)], full=full, with_verdict=False)
        assert "lacking: TypeScript needs Node 22.13 or later, and this is 20.20.2" in (out := capsys.readouterr().out)
        assert "hat to do: pip install it" in out


@pytest.mark.long  # each trial once more
def test_the_table_says_what_works_in_words():
    command = [sys.executable, "-m", "actbox", "doctor", "--full"]
    text = subprocess.run(command, capture_output=True, check=False).stdout.decode()
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
