"""The local file store keeps what it is given, for as long as it was told to."""

from __future__ import annotations

import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actbox.content import files
from actbox.content.files import LocalFileStore


@pytest.fixture
def store(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path / "store")


class Later:
    """The clock, some seconds on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self, zone) -> datetime:
        return datetime.fromtimestamp(datetime.now(zone).timestamp() + self._seconds, zone)

    fromtimestamp = staticmethod(datetime.fromtimestamp)
    min = datetime.min


def test_a_file_comes_back_with_what_was_said_of_it(store: LocalFileStore) -> None:
    kept = store.put(b"a,b\n1,2\n", name="table.csv", media_type="text/csv")
    assert store.get(kept.file_id) == b"a,b\n1,2\n"
    assert store.info(kept.file_id) == kept
    assert (kept.name, kept.media_type, kept.size_bytes) == ("table.csv", "text/csv", 8)
    assert kept.created_at is not None
    assert kept.created_at.tzinfo is UTC


def test_the_same_file_put_again_has_the_same_id(store: LocalFileStore) -> None:
    first, again = store.put(b"x", name="a"), store.put(b"x", name="a")
    assert first.file_id == again.file_id
    assert len(store.list()) == 1


def test_the_same_bytes_under_two_names_are_two_files(store: LocalFileStore, tmp_path: Path) -> None:
    one, two = store.put(b"x", name="a"), store.put(b"x", name="b")
    store.delete(one.file_id)
    assert store.get(two.file_id) == b"x"
    store.delete(two.file_id)
    assert list((tmp_path / "store" / "bytes").iterdir()) == []


@pytest.mark.parametrize("file_id", ["", "file-", "../secret", "file-" + "0" * 40, "file-" + "0" * 39 + "/", "a\0b"])
def test_an_id_that_is_not_there_is_a_key_error(store: LocalFileStore, tmp_path: Path, file_id: str) -> None:
    (tmp_path / "secret").write_text("{}")
    for ask in (store.get, store.info, store.delete):
        with pytest.raises(KeyError):
            ask(file_id)


def test_a_file_whose_time_is_over_is_gone(store: LocalFileStore, monkeypatch, tmp_path: Path) -> None:
    short, long = store.put(b"x", keep_seconds=60), store.put(b"y", keep_seconds=3600)
    monkeypatch.setattr(files, "datetime", Later(120))
    assert [file.file_id for file in store.list()] == [long.file_id]
    with pytest.raises(KeyError):
        store.get(short.file_id)
    store.remove_expired()
    assert len(list((tmp_path / "store" / "bytes").iterdir())) == 1


def test_a_file_put_again_is_kept_for_the_longer_time(store: LocalFileStore, monkeypatch) -> None:
    kept = store.put(b"x", keep_seconds=3600)
    store.put(b"x", keep_seconds=1)
    monkeypatch.setattr(files, "datetime", Later(120))
    assert store.get(kept.file_id) == b"x"


def test_a_file_put_once_without_end_is_kept_without_end(store: LocalFileStore, monkeypatch) -> None:
    kept = store.put(b"x")
    store.put(b"x", keep_seconds=1)
    monkeypatch.setattr(files, "datetime", Later(10**6))
    assert store.get(kept.file_id) == b"x"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e300])
def test_a_time_that_is_none_is_refused(store: LocalFileStore, seconds: float) -> None:
    with pytest.raises(ValueError, match="keep_seconds"):
        store.put(b"x", keep_seconds=seconds)


def test_only_the_owner_can_read_a_file(store: LocalFileStore, tmp_path: Path) -> None:
    store.put(b"x")
    for path in (tmp_path / "store").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_another_store_in_the_same_folder_has_the_same_files(store: LocalFileStore, tmp_path: Path) -> None:
    kept = store.put(b"x")
    assert LocalFileStore(tmp_path / "store").get(kept.file_id) == b"x"


@pytest.mark.slow
def test_who_puts_a_file_while_others_delete_theirs_can_get_it(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def work(name: str) -> None:
        store = LocalFileStore(tmp_path)
        try:
            for _ in range(100):
                kept = store.put(b"the same for all", name=name)
                assert store.get(kept.file_id) == b"the same for all"
                store.delete(kept.file_id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.slow
def test_what_is_put_while_others_remove_what_has_expired_stays(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    errors: list[BaseException] = []

    def put() -> None:
        try:
            assert LocalFileStore(tmp_path).get(LocalFileStore(tmp_path).put(b"q").file_id) == b"q"
        except BaseException as error:
            errors.append(error)

    for _ in range(60):
        store.put(b"q", keep_seconds=0.001)
        threads = [threading.Thread(target=work) for work in (put, store.remove_expired, store.remove_expired)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.delete(store.put(b"q").file_id)
    assert errors == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", "?"])
def test_a_document_that_is_none_stops_nobody(store: LocalFileStore, tmp_path: Path, text: str) -> None:
    (tmp_path / "store" / "files" / ("file-" + "0" * 40)).write_text(text)
    kept = store.put(b"x", keep_seconds=60)
    store.remove_expired()
    assert store.list() == [kept]


def test_bytes_that_were_cut_off_are_whole_when_the_file_is_put_again(store: LocalFileStore, tmp_path: Path) -> None:
    kept = store.put(b"whole")
    (tmp_path / "store" / "bytes" / kept.file_id).write_bytes(b"wh")
    assert store.get(store.put(b"whole").file_id) == b"whole"


def test_no_name_is_not_the_name_none(store: LocalFileStore) -> None:
    assert store.put(b"x").file_id != store.put(b"x", name="None").file_id


@pytest.mark.slow
@given(st.lists(st.tuples(st.binary(max_size=20), st.none() | st.text(max_size=5)), max_size=6))
def test_whatever_is_put_can_be_had(tmp_path_factory, put) -> None:
    store = LocalFileStore(tmp_path_factory.mktemp("store"))
    kept = [(store.put(data, name=name).file_id, data) for data, name in put]
    assert all(store.get(file_id) == data for file_id, data in kept)
    assert {file.file_id for file in store.list()} == {file_id for file_id, _ in kept}


def test_a_name_that_is_none_is_refused_before_anything_is_kept(store: LocalFileStore) -> None:
    kept = store.put(b"ok")
    with pytest.raises(ValueError, match="name"):
        store.put(b"z", name=5)  # type: ignore[arg-type]
    assert store.list() == [kept]
