"""Compiled modules of packages: programs compile none anew, and nothing else comes in with them."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

import actbox
from actbox.core.packages import Environment
from actbox.packages import compiling, resolving
from actbox.packages.store import Artifact, BadCache, PackageStore
from actbox.sandbox.dependencies import Target

from .index_server import IndexServer
from .kits import policy_of, run
from .wheel_factory import make_wheel, sha256_of

TAG = "cpython-399"
INIT = "site/kit_a/__init__.py"
COMPILED = f"site/kit_a/__pycache__/__init__.{TAG}.pyc"
# The value is the sources that were compiled in this run, and what the interpreter took in place of the others.
COUNTING = """
import sys
compiled = []
sys.addaudithook(lambda event, given: compiled.append(str(given[1])) if event == "compile" else None)
import kit_many.plain
cached = kit_many.plain.__spec__.cached
try: import kit_many.wrong
except SyntaxError as error: refused = error.msg
[[name.rpartition("/")[2] for name in compiled if "kit_many" in name], open(cached, "rb").read()[4:8], refused]
"""


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "cache")


def added(store: PackageStore, wheel: Path, compiled: bytes = b"") -> Artifact:
    artifact = store.add(wheel, wheel.name, sha256_of(wheel))
    if compiled:
        store.add_compiled(artifact, TAG, dict.fromkeys(store.sources(artifact, TAG), compiled))
    found = store.find(artifact.sha256, TAG)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", ["one run", "environment", "session"])
async def test_a_program_compiles_no_module_that_can_be_compiled_ahead(place: str, index: IndexServer) -> None:
    files = {f"kit_many/{name}.py": b"here = 1\n" for name in ("__init__", "plain", *"abcdefghijklmnopqrstuvwxyz")} | {
        "kit_many/wrong.py": b"1 +"
    }
    make_wheel(index.folder, "kit_many", files=files)
    policy = policy_of(index, auto_approved=["kit-many"])
    if place == "one run":
        result = await run(policy, COUNTING, "kit-many")
    elif place == "environment":
        result = await run(
            actbox.Policy(environment=Environment(name="kit", packages=("kit-many",)), packages=policy.packages),
            COUNTING,
        )
    else:
        async with actbox.open_sandbox("linux", policy=policy) as box, box.session() as session:
            result = await session.run(f"%pip install kit-many\n{COUNTING}")
    assert result.value == [["wrong.py"], b"\1\0\0\0", "invalid syntax"], result


@pytest.mark.slow
@pytest.mark.parametrize("what", ["import os; os.abort()", "while True: pass"])
async def test_a_compiler_that_crashes_or_hangs_costs_the_compiled_modules_alone(
    what: str, index: IndexServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "_COMPILE", what)
    monkeypatch.setattr(resolving, "COMPILE_SECONDS", 0.5)
    result = await run(policy_of(index), "import kit_greeting\nkit_greeting.greeting", "kit-greeting")
    assert result.value == "hello", result


def test_compiled_modules_are_for_one_interpreter(store: PackageStore, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "kit_a", files={"kit_a/__init__.py": b"", "kit_a/tests/__init__.py": b"1"})
    artifact = added(store, wheel, b"code")
    assert artifact.compiled == {INIT: (COMPILED, hashlib.sha256(b"code").hexdigest())}
    assert added(store, wheel, b"later") == artifact  # as by another process
    plain = store.find(artifact.sha256, "cpython-398")
    assert plain is not None and plain.compiled is None
    with_it, without = store.use([artifact]).path, store.use([plain]).path
    assert (with_it / COMPILED).read_bytes() == b"code" and not (without / COMPILED).exists()
    assert compiling.cache_tag("3.13", Target("3.13")) == ""  # WebAssembly


def test_a_compiled_module_that_somebody_edited_is_not_used(store: PackageStore, tmp_path: Path) -> None:
    artifact = added(store, make_wheel(tmp_path, "kit_a", files={"kit_a/__init__.py": b""}), b"code")
    (store.use([artifact]).path / COMPILED).write_bytes(b"evil")
    with pytest.raises(BadCache, match=f"{TAG}.pyc is not what was put into the package cache"):
        store.use([artifact])
    assert store.find(artifact.sha256) is None


def test_a_wheel_has_no_compiled_module_for_the_source_of_another(store: PackageStore, tmp_path: Path) -> None:
    honest = added(store, make_wheel(tmp_path, "kit_a", files={"kit_a/__init__.py": b""}), b"code")
    path = COMPILED.removeprefix("site/")
    trojan = added(store, make_wheel(tmp_path, "kit_b", files={path: b"evil"}), b"code")
    assert (store.use([honest, trojan]).path / COMPILED).read_bytes() == b"code"
    own = added(store, make_wheel(tmp_path, "kit_c", files={"kit_a/__init__.py": b"", path: b"own"}), b"code")
    assert own.compiled == {} and (store.use([honest, own]).path / COMPILED).read_bytes() == b"own"


def test_packages_that_share_a_source_may_have_it_compiled_differently(store: PackageStore, tmp_path: Path) -> None:
    both = [
        added(store, make_wheel(tmp_path, name, files={"kit_a/__init__.py": b""}), name.encode())
        for name in ("kit_b", "kit_c")
    ]
    assert (store.use(both).path / COMPILED).read_bytes() == b"kit_b"


def test_only_whole_records_of_a_file_are_read_and_only_for_sources_that_were_given(tmp_path: Path) -> None:
    names = [character * 64 for character in "abc"]
    (tmp_path / "compiled-0").write_bytes(b"".join(b"%b 3\ncod" % name.encode() for name in names[:2]))
    sources = dict.fromkeys((names[0], names[2]), ("", tmp_path))
    (tmp_path / "compiled-1").write_bytes(names[2].encode() + b" 4\ncod")
    assert compiling.read_compiled(tmp_path, sources) == {names[0]: b"cod"}
    os.remove(tmp_path / "compiled-1")
    (tmp_path / "compiled-0").rename(tmp_path / "elsewhere")
    (tmp_path / "compiled-0").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "compiled-1")
    assert compiling.read_compiled(tmp_path, sources) == {}


def test_sources_that_somebody_edited_are_not_compiled(store: PackageStore, tmp_path: Path) -> None:
    artifact = added(store, make_wheel(tmp_path, "kit_a", files={"kit_a/__init__.py": b"", "kit_a/b.py": b"1"}))
    sources = store.sources(artifact, sys.implementation.cache_tag)
    next(file for path, file in sources.values() if path.endswith("b.py")).write_text("2")
    compiling.write_sources(tmp_path, sources)
    empty = hashlib.sha256(b"").hexdigest()
    assert (tmp_path / "sources").read_text() == f"{empty} 0 /opt/packages/{INIT}\n"
