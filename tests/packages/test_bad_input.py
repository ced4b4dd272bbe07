"""Packages that are wrong in one way, from an index on loopback: a clear error each, and nothing else is harmed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import actbox
from actbox import ErrorKind, ExecutionResult, InvalidValue, Policy, Program
from actbox.core.packages import Environment, PackagePolicy
from actbox.packages import provider, resolving

from .index_server import IndexServer
from .kits import policy_of, run
from .wheel_factory import make_wheel, sha256_of

pytestmark = pytest.mark.slow

WORDS = "kit_words-1.0-py3-none-any.whl"
ASKED = "kit-bad"
EXBIBYTE = 2**60


def _old(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_bad", requires=("kit-words<1",))


def _yanked(index: IndexServer) -> None:
    index.yanked[make_wheel(index.folder, "kit_bad").name] = "it loses data"


def _for_windows(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_bad", tag="cp313-cp313-win_amd64")


def _for_another_python(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_bad", tag="cp39-cp39-any")


def _of(**files: bytes) -> Callable[[IndexServer], None]:
    def make(index: IndexServer) -> None:
        make_wheel(index.folder, "kit_bad", files={name.replace("__", "."): data for name, data in files.items()})

    return make


def _lying_record(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_bad", record={"kit_bad/__init__.py": "kit_bad/__init__.py,sha256=x,12\n"})


def _huge(index: IndexServer) -> None:
    index.is_modern = True
    index.sizes[make_wheel(index.folder, "kit_bad").name] = EXBIBYTE


def _larger_than_it_says(index: IndexServer) -> None:
    index.is_modern = True
    index.sizes[make_wheel(index.folder, "kit_bad").name] = 100


BAD: dict[str, tuple[Callable[[IndexServer], None], tuple[str, ...], tuple[str, ...]]] = {
    "pins that conflict": (
        _old,
        (ASKED, "kit-greeting"),
        ("kit-bad, kit-greeting cannot be had: Because ", "kit-words<1"),
    ),
    "a yanked version": (_yanked, (ASKED,), ("kit-bad cannot be had", "yanked")),
    "a yanked version by its number": (_yanked, ("kit-bad==1.0",), ("kit-bad==1.0 was withdrawn", "another version")),
    "another platform": (_for_windows, (ASKED,), ("kit-bad cannot be had", "win_amd64")),
    "another interpreter": (_for_another_python, (ASKED,), ("kit-bad cannot be had: Because", "Environment(python=")),
    "a standard module": (_of(json__py=b""), (ASKED,), ("kit-bad cannot be", "its module json would stand in")),
    "a compiled standard module": (_of(json__pyc=b""), (ASKED,), ("kit-bad cannot be", "its module json would")),
    "our guest": (_of(_actbox__py=b""), (ASKED,), ("kit-bad cannot be", "its module _actbox would stand in")),
    "a RECORD that lies": (_lying_record, (ASKED,), ("kit-bad cannot be", "another hash than its RECORD says")),
    "more than the disk holds": (_huge, (ASKED,), ("kit_bad-1.0-py3-none-any.whl needs", "MiB free: make room")),
    "more than the index says": (_larger_than_it_says, (ASKED,), ("kit-bad cannot be", "kit_bad-1.0")),
}


@pytest.mark.parametrize(("prepare", "asked", "said"), BAD.values(), ids=BAD)
async def test_what_is_wrong_is_named_and_nothing_of_it_is_kept(
    prepare: Callable[[IndexServer], None], asked: tuple[str, ...], said: tuple[str, ...], index: IndexServer
) -> None:
    prepare(index)
    policy = policy_of(index, auto_approved=["kit-bad", "kit-greeting"])
    async with actbox.open_sandbox("linux", policy=policy) as box:
        result = await box.run(Program("print('ran')", dependencies=asked))
        message = _missing(result)
        for part in said:
            assert part in message, message
        store = provider.provider()._store
        assert [os.listdir(store.root / name) for name in ("artifacts", "sets", "temporary")] == [[], [], []]
        again = await box.run(Program("import kit_words\nkit_words.word", dependencies=("kit-greeting",)))
    assert again.value == "hello"


def _missing(result: ExecutionResult) -> str:
    assert result.error is not None and result.stdout == ""
    assert result.error.kind is ErrorKind.MISSING_DEPENDENCY, result.error
    return f"{result.error.message} ({result.error.hint})"


@pytest.mark.parametrize(
    "asked", ["./kit.whl", "/etc/passwd", "-r list.txt", "--index-url=http://a", "--pre", "git+https://a/b"]
)
async def test_what_is_no_requirement_is_refused_before_anything_is_asked(asked: str, index: IndexServer) -> None:
    with pytest.raises(InvalidValue, match=asked.partition(" ")[0].replace("+", r"\+")):
        await run(policy_of(index), "print('ran')", asked)
    assert index.requests.total() == 0


async def test_an_address_needs_an_approval_and_the_index_alone_can_be_reached(index: IndexServer) -> None:
    result = await run(
        policy_of(index), "print('ran')", "kit-greeting @ https://127.0.0.1:1/kit_greeting-1.0-py3-none-any.whl"
    )
    assert result.error is not None and result.stdout == ""
    assert (result.error.type, index.requests.total()) == ("PackageNotApproved", 0)


async def test_five_hundred_requirements_are_had_together_and_one_more_is_refused(index: IndexServer) -> None:
    names = [f"kit-{number}" for number in range(500)]
    for name in names[:2]:
        make_wheel(index.folder, name.replace("-", "_"), files={f"{name.replace('-', '_')}.py": b""})
    policy = policy_of(index, auto_approved=names)
    message = _missing(await run(policy, "print('ran')", *names))
    assert "kit-499" in message and "index" in message
    with pytest.raises(InvalidValue, match=r"there are more than 500 requirements.*'kit-500'"):
        await run(policy, "print('ran')", *names, "kit-500")


async def test_hooks_of_a_package_run_in_the_sandbox_only(index: IndexServer, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = f"""
import os, socket
said = []
try: open({str(trace)!r}, "w")
except OSError as error: said.append("no file")
try: socket.create_connection(("127.0.0.1", {index.address.rpartition(":")[2].partition("/")[0]}))
except OSError as error: said.append("no network")
if os.fork() == 0:
    os.setsid()
    while True: os.read(os.pipe()[0], 1)
"""
    make_wheel(index.folder, "kit_bad", files={"kit_bad.py": code.encode(), "kit.pth": b"import kit_bad\n"})
    ask = "import subprocess, sys\nstarted = subprocess.run([sys.executable, '-c', 'import sys; print(*sys.modules)'], "
    ask += "capture_output=True, text=True).stdout.split()\n"
    ask += "before = 'kit_bad' in sys.modules or 'kit_bad' in started\nimport kit_bad\n[before, kit_bad.said]"
    result = await run(policy_of(index, auto_approved=["kit-bad"]), ask, "kit-bad")
    assert result.value == [False, ["no file", "no network"]], result
    assert any("kit.pth is not run" in warning for warning in result.warnings)
    assert not trace.exists()


async def test_an_endless_file_is_not_fetched_whole(index: IndexServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "_MOST_UNKNOWN_BYTES", 2**20)
    make_wheel(index.folder, "kit_bad", files={"kit_bad.bin": os.urandom(2**20)})
    message = _missing(await run(policy_of(index, auto_approved=["kit-bad"]), "print('ran')", "kit-bad"))
    assert "a file has more than 1 MiB, and the index does not say its size" in message


async def test_an_index_that_does_not_answer_is_given_up_after_the_time_of_the_policy(index: IndexServer) -> None:
    index.answers.clear()
    policy = policy_of(index)
    assert policy.packages is not None
    impatient = dataclasses.replace(policy, packages=dataclasses.replace(policy.packages, install_seconds=0.5))
    impatient_run, patient_run = (
        asyncio.ensure_future(run(one, "print('ran')", "kit-greeting")) for one in (impatient, policy)
    )
    message = _missing(await impatient_run)
    assert message.startswith("kit-greeting cannot be had: the index has not answered within 0.5 s"), message
    index.answers.set()
    assert (await patient_run).stdout == "ran\n", "another policy's time counts"


async def test_what_somebody_edited_in_the_cache_is_fetched_anew(index: IndexServer, tmp_path: Path) -> None:
    policy = policy_of(index)
    await run(policy, "1", "kit-greeting")
    for path in (tmp_path / "cache").rglob("kit_words.py"):
        path.write_text("word = 'evil'\n")
    result = await run(policy, "import kit_greeting\nkit_greeting.greeting", "kit-greeting")
    assert result.value == "hello", result
    assert index.files_fetched().count(WORDS) >= 2


async def test_a_lock_of_another_platform_is_made_anew(index: IndexServer) -> None:
    kit = Environment(name="kit", packages=("kit-words",))
    policy = Policy(environment=kit, packages=PackagePolicy(index=index.address))
    await run(policy, "1")
    records = provider.provider().records
    known = records.read("kit")
    assert known is not None
    records.write(dataclasses.replace(known, platform="cpython-3.9 win-amd64"))
    assert (await run(policy, "import kit_words\nkit_words.word")).value == "hello"
    assert records.read("kit").platform == known.platform  # type: ignore[union-attr]


_ON_A_SMALL_DISK = """
import json, os, sys
from pathlib import Path
from actbox.packages.store import PackageStore
root, small, large = Path(sys.argv[1]) / "cache", *map(Path, sys.argv[2:4])
store = PackageStore(root)
before = store.add(small, small.name, sys.argv[4])
try: said = store.add(large, large.name, sys.argv[5]) and ""
except OSError as error: said = error.errno
left = [sorted(os.listdir(root / name)) for name in ("artifacts", "temporary")]
used = store.use([before])
print(json.dumps([said, left == [[before.sha256, before.sha256 + ".json"], []], (used.path / "site").is_dir()]))
"""


def test_a_disk_that_is_full_half_way_keeps_what_was_there(tmp_path: Path) -> None:
    small = make_wheel(tmp_path, "kit_small")
    large = make_wheel(tmp_path, "kit_large", files={f"kit_large/{number}": os.urandom(2**16) for number in range(32)})
    (tmp_path / "disk").mkdir()
    hashes = " ".join(sha256_of(wheel) for wheel in (small, large))
    script = f'mount -t tmpfs -o size=1m tmpfs disk && exec "$0" -c "$1" disk {small} {large} {hashes}'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, _ON_A_SMALL_DISK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[28, true, true]\n", done.stderr


async def test_a_policy_that_names_vulnerabilities_is_heard_though_its_rules_gave_the_package_before(
    index: IndexServer, tmp_path: Path
) -> None:
    affected = {"package": {"ecosystem": "PyPI", "name": "kit-words"}, "versions": ["1.0"]}
    (tmp_path / "osv.json").write_text(json.dumps({"id": "KIT-1", "affected": [affected]}))
    policy = policy_of(index)
    assert policy.packages is not None
    careful = dataclasses.replace(policy.packages, vulnerabilities=str(tmp_path / "osv.json"))
    assert (await run(policy, "1", "kit-greeting")).success
    result = await run(dataclasses.replace(policy, packages=careful), "1", "kit-greeting")
    assert result.error is not None and "kit-words==1.0 has known vulnerabilities: KIT-1" in result.error.message
