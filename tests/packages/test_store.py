"""The package cache: each file once, whole or not at all, checked at each use, and shared by processes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from actbox import InvalidValue
from actbox.packages import artifact_sets, artifacts
from actbox.packages.locked_files import Locked
from actbox.packages.store import Artifact, BadCache, PackageStore, UsedSet
from actbox.packages.wheels import BadWheel

from .registry_server import make_tarball
from .wheel_factory import make_wheel, sha256_of


@pytest.fixture
def store(tmp_path: Path) -> PackageStore:
    return PackageStore(tmp_path / "cache")


def added(store: PackageStore, wheel: Path) -> Artifact:
    return store.add(wheel, wheel.name, sha256_of(wheel))


def two(store: PackageStore, folder: Path) -> list[Artifact]:
    wheels = [make_wheel(folder, name, files={f"{name}/__init__.py": name.encode()}) for name in ("kit_a", "kit_b")]
    return [added(store, wheel) for wheel in wheels]


def test_a_set_shows_the_files_of_its_artifacts_and_each_file_is_stored_once(
    store: PackageStore, tmp_path: Path
) -> None:
    artifacts = two(store, tmp_path)
    one, both = store.use(artifacts[:1]), store.use(artifacts)
    shown = both.path / "site" / "kit_a" / "__init__.py"
    assert shown.read_text() == "kit_a" and (both.path / "site" / "kit_b" / "__init__.py").exists()
    assert shown.stat().st_nlink == 3 and shown.samefile(one.path / "site" / "kit_a" / "__init__.py")
    assert {path.stat().st_mode & 0o7777 for path in both.path.rglob("*") if path.is_dir()} == {0o755}
    assert store.use(reversed(artifacts)).path == both.path


def test_other_users_may_enter_the_directories_of_a_set_whatever_the_umask_is(
    store: PackageStore, tmp_path: Path
) -> None:
    before = os.umask(0o077)
    try:
        used = store.use(two(store, tmp_path))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in [used.path, *used.path.rglob("*")] if path.is_dir()} == {0o755}
    assert {path.stat().st_mode & 0o777 for path in used.path.rglob("*") if path.is_file()} == {0o644}


def test_a_wheel_is_unpacked_once(store: PackageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    first = added(store, wheel)
    monkeypatch.delattr(artifacts, "unpack")
    assert added(PackageStore(store.root), wheel) == first == store.find(first.sha256)


def _add_and_use(root: Path, wheel: Path) -> str:
    store = PackageStore(root)
    used = store.use([added(store, wheel)])
    return (used.path / "site" / "kit_wheel" / "__init__.py").read_text()


def test_processes_that_want_the_same_thing_at_once_all_get_it(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_add_and_use, [tmp_path / "cache"] * 20, [wheel] * 20))
    assert found == ["here = True\n"] * 20
    assert os.listdir(tmp_path / "cache" / "temporary") == []


def _edit(path: Path) -> None:
    before = path.stat()
    path.write_text("here = Fals\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _hide(path: Path) -> None:
    path.chmod(0o600)


@pytest.mark.parametrize("change", [_edit, _hide])
def test_a_cache_that_somebody_edited_is_not_used(
    change: Callable[[Path], None], store: PackageStore, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path)
    artifact = added(store, wheel)
    used = store.use([artifact])
    change(used.path / "site" / "kit_wheel" / "__init__.py")
    with pytest.raises(BadCache, match="is not what was put into the package cache"):
        store.use([artifact])
    assert store.find(artifact.sha256) is None
    again = store.use([added(store, wheel)])
    assert (again.path / "site" / "kit_wheel" / "__init__.py").read_text() == "here = True\n"


def test_what_is_no_hash_names_nothing_outside_the_cache(store: PackageStore, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "m.json").write_text(json.dumps(asdict(Artifact("../../mine", "f", "kit", "1.0", (), (), (), {}))))
    assert store.find("../../m") is None
    link = store.root / "artifacts" / f"{'0' * 64}.json"
    link.write_text((tmp_path / "m.json").read_text())
    assert store.find("0" * 64) is None
    with pytest.raises(InvalidValue, match="no hexadecimal hash"):
        Locked("kit", "1.0", "http://127.0.0.1/", "kit-1.0-py3-none-any.whl", "../../m")
    assert mine.is_dir()


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "[" * 100_000, '{"files": []}', "null", "a directory", "another type", "a path outside"],
)
def test_an_artifact_whose_manifest_is_damaged_is_made_anew(damaged: str, store: PackageStore, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    artifact = added(store, wheel)
    manifest = store.root / "artifacts" / f"{artifact.sha256}.json"
    said = json.loads(manifest.read_text())
    if damaged == "a directory":
        manifest.unlink()
        manifest.mkdir()
    elif damaged == "another type":
        manifest.write_text(json.dumps({**said, "name": None}))
    elif damaged == "a path outside":
        manifest.write_text(json.dumps({**said, "files": {"../x": ["0" * 64, 0o644]}}))
    else:
        manifest.write_text(damaged)
    assert store.find(artifact.sha256) is None
    assert added(store, wheel) == artifact == store.find(artifact.sha256)


@pytest.mark.parametrize("what", ["a file more", "a link", "a file less", "a file in its place"])
def test_a_set_that_somebody_edited_is_made_anew(what: str, store: PackageStore, tmp_path: Path) -> None:
    artifact = added(store, make_wheel(tmp_path))
    site = store.use([artifact]).path / "site"
    if what == "a file more":
        (site / "evil.py").write_text("")
    elif what == "a file in its place":
        shutil.rmtree(site.parent)
        site.parent.write_text("")
    elif what == "a link":
        (site / "evil.py").symlink_to("/etc/passwd")
    else:
        (site / "kit_wheel" / "__init__.py").unlink()
    again = store.use([artifact]).path / "site"
    assert (again / "kit_wheel" / "__init__.py").exists() and not (again / "evil.py").is_symlink()
    assert not (again / "evil.py").exists()


def test_a_set_is_hashed_at_its_first_use_and_again_only_where_a_file_has_changed(
    store: PackageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = added(store, make_wheel(tmp_path))
    store.use([artifact])
    monkeypatch.delattr(artifact_sets, "hash_of")
    store.use([artifact])


def test_two_distributions_with_one_file_cannot_be_had_together(store: PackageStore, tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path, name, files={"kit/same.py": name.encode()}) for name in ("kit_a", "kit_b")]
    with pytest.raises(InvalidValue, match=r"kit-a 1\.0 and kit-b 1\.0 both have site/kit/same\.py"):
        store.use([added(store, wheel) for wheel in wheels])


def test_what_is_in_use_stays_and_what_nobody_used_for_long_goes(store: PackageStore, tmp_path: Path) -> None:
    artifacts = two(store, tmp_path)
    used, unused = store.use(artifacts[:1]), store.use(artifacts)
    unused.close()
    freed = store.collect(keep_seconds=-1)
    assert freed > 0
    assert (used.path / "site" / "kit_a" / "__init__.py").read_text() == "kit_a"
    assert not unused.path.exists() and store.find(artifacts[1].sha256) is None
    used.close()
    store.collect(keep_seconds=-1)
    assert [path for path in store.root.rglob("*") if path.is_file() and path.name not in ("collect", "sets")] == []


def test_the_bytes_freed_count_each_file_once(store: PackageStore, tmp_path: Path) -> None:
    store.use([added(store, make_wheel(tmp_path))]).close()
    [(size, _)] = store.contents().values()
    assert store.collect(keep_seconds=-1) == size > 0


def test_a_set_that_nobody_can_close_any_more_is_not_in_use(store: PackageStore, tmp_path: Path) -> None:
    path = store.use([added(store, make_wheel(tmp_path))]).path
    store.collect(keep_seconds=-1)
    assert not path.exists()


def test_a_collection_leaves_no_name_and_no_lock_of_what_is_gone(store: PackageStore, tmp_path: Path) -> None:
    tarball = tmp_path / "kit.tgz"
    tarball.write_bytes(make_tarball({"name": "kit", "version": "1.0.0"}))
    sha512 = hashlib.sha512(tarball.read_bytes()).hexdigest()
    artifact = store.add_tarball(tarball, tarball.name, "kit", "1.0.0", sha512)
    store.collect(kept={artifact.sha256})
    assert store.find(sha512) == artifact
    with pytest.raises(BadWheel):
        store.add(tarball, "kit-1.0-py3-none-any.whl", "0" * 64)
    store.collect(keep_seconds=-1)
    assert sorted(path.name for path in store.root.rglob("*") if path.is_file()) == ["collect"]


def test_a_directory_that_is_held_stays_and_one_that_nobody_holds_goes(store: PackageStore) -> None:
    held = store.temporary.make("session-")
    abandoned = store.root / "temporary" / "abandoned"
    abandoned.mkdir()
    with store.temporary.made() as under_way:
        store.collect()
        assert under_way.is_dir() and held.path.is_dir() and not abandoned.exists()
    held.close()
    held.close()
    store.temporary.make()  # whoever wanted it is gone
    store.collect(keep_seconds=-1)
    assert list((store.root / "temporary").iterdir()) == []


def test_beyond_its_size_the_cache_loses_what_was_used_longest_ago(store: PackageStore, tmp_path: Path) -> None:
    big = [make_wheel(tmp_path, name, files={f"{name}/x": os.urandom(2**16)}) for name in ("kit_a", "kit_b")]
    artifacts = [added(store, wheel) for wheel in big]
    lock = store.root / "locks" / f"artifact-{artifacts[0].sha256}"
    os.utime(lock, (1, 1))
    store.collect(most_bytes=100_000)
    assert [store.find(artifact.sha256) is not None for artifact in artifacts] == [False, True]


def test_what_was_used_just_now_stays_whatever_the_age_and_size_are(store: PackageStore, tmp_path: Path) -> None:
    artifact = added(store, make_wheel(tmp_path))
    lock = store.root / "locks" / f"artifact-{artifact.sha256}"
    os.utime(lock, (1, 1))
    assert store.find(artifact.sha256) == artifact
    store.collect(keep_seconds=0, most_bytes=1)
    store.use([artifact]).close()


@pytest.mark.parametrize("wrong", ["a link", "a file", "writable by others", "below a file"])
def test_a_directory_that_is_not_our_own_is_refused(wrong: str, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    if wrong == "a link":
        root.symlink_to(tmp_path)
    elif wrong == "a file":
        root.write_text("")
    elif wrong == "below a file":
        root.write_text("")
        root /= "cache"
    else:
        root.mkdir()
        root.chmod(0o777)
    with pytest.raises(BadCache, match="name a directory of your own"):
        PackageStore(root)


def test_a_used_set_can_be_closed_twice(store: PackageStore, tmp_path: Path) -> None:
    used: UsedSet = store.use([added(store, make_wheel(tmp_path))])
    used.close()
    used.close()
