"""Under root each open sandbox has a user of its own outside, which the kernel counts by."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import pwd
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import actbox
from actbox import InvalidValue, SandboxUnavailable
from actbox.sandbox.engines.linux import guest_ids, stock
from actbox.sandbox.engines.linux.engine import LinuxSandbox
from actbox.sandbox.engines.linux.guest_ids import GuestIds
from tests.conftest import engine_check

_NS_GET_OWNER_UID = 0xB704

under_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's guests are that very user outside")


@pytest.fixture(autouse=True)
def linux_works() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the linux engine does not work here: {found.reason}")


@pytest.fixture
def ids_of(tmp_path: Path) -> Iterator[Callable[[int], GuestIds]]:
    """Makes what a process has of a range of so many ids; each is another process to the kernel."""
    with contextlib.ExitStack() as opened:

        def of(count: int) -> GuestIds:
            locks = os.open(tmp_path / "locks", os.O_RDWR | os.O_CREAT)
            opened.callback(os.close, locks)
            return GuestIds(range(5000, 5000 + count), locks)

        yield of


@pytest.fixture
def no_ids_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_ids, "_of_process", None)


@actbox.tool
def owners() -> list[int]:
    """Return the users who made the user namespaces of the sandboxes that there are."""
    found = []
    for one in stock._stocks.values():
        nursery = one.nursery.pid
        for pid in Path(f"/proc/{nursery}/task/{nursery}/children").read_text().split():
            if Path(f"/proc/{pid}/comm").read_text() == "actbox-mounts\n":  # the nursery's helper
                continue
            with open(f"/proc/{pid}/ns/user") as namespace:
                answer = bytearray(4)
                fcntl.ioctl(namespace, _NS_GET_OWNER_UID, answer)
                found += struct.unpack("=I", answer)
    return found


@pytest.mark.slow
@under_root
async def test_no_two_sandboxes_share_a_user() -> None:
    users: list[int] = []
    async with actbox.open_sandbox("linux") as one, actbox.open_sandbox("linux") as other:
        for box in (one, other, one, other):
            await box.write_file("mine", b"x")
            result = await box.run("open('mine', 'a').write('y')\nowners()", tools=[owners])
            assert result.error is None, result
            assert isinstance(box, LinuxSandbox)
            status = os.stat("mine", dir_fd=box._open()[1].folder)
            assert status.st_uid == status.st_gid
            assert {status.st_uid} < set(result.value) <= set(guest_ids.guest_ids().ids)
            users.append(status.st_uid)
    assert users[0] == users[2] != users[1] == users[3]


@pytest.mark.slow
@under_root
async def test_what_is_copied_from_a_session_has_its_sandboxs_user() -> None:
    async with actbox.open_sandbox("linux") as box, box.session(forkable=True) as session:
        before = await session.run("open('a', 'w').write('1')")
        async with await session.fork() as copy:
            result = await copy.run("import os\nopen('a', 'a').write('2'), os.stat('/workspace').st_uid, os.getuid()")
    assert before.error is None
    assert result.value == (1, 1000, 1000), result


def test_an_id_whose_lock_cannot_be_let_go_of_stays_taken(
    ids_of: Callable[[int], GuestIds], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ids_of(2)
    first = ids.take()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as failing:
        failing.setattr(fcntl, "fcntl", fail)
        ids.give_back(first)
    assert ids.take() != first
    with pytest.raises(SandboxUnavailable):
        ids.take()


def test_an_id_is_given_to_one_only_and_again_only_after_all_others(ids_of: Callable[[int], GuestIds]) -> None:
    one, other = ids_of(4), ids_of(4)
    taken = [one.take(), other.take(), one.take()]
    assert len(set(taken)) == 3
    one.give_back(taken[0])
    last = one.take()
    assert last not in taken
    assert other.take() == taken[0]
    with pytest.raises(SandboxUnavailable, match=r"all 4 of 5000-5003 are taken.*ACTBOX_GUEST_IDS=FIRST-LAST"):
        one.take()


def test_what_a_process_had_is_free_once_it_has_ended(ids_of: Callable[[int], GuestIds]) -> None:
    mine = ids_of(1)
    ends, end = os.pipe()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        theirs = GuestIds(mine.ids, os.open(f"/proc/self/fd/{mine._locks}", os.O_RDWR))
        os.write(tell, b"%d" % theirs.take())
        os.read(ends, 1)
        os._exit(0)
    assert os.read(ready, 16) == b"5000"
    with pytest.raises(SandboxUnavailable):
        mine.take()
    os.close(end)
    os.waitpid(child, 0)
    assert mine.take() == 5000
    for descriptor in (ends, ready, tell):
        os.close(descriptor)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("many", "must be a range of user ids"),
        ("0-100", "must be a range of user ids"),
        ("200-100", "must be a range of user ids"),
        ("4294967290-4294967295", "must be a range of user ids"),
        ("100000-165535", "gives 165000-165009 to somebody else"),
    ],
)
def test_a_range_that_cannot_be_used_is_refused(
    said: str, why: str, no_ids_yet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_ids, "_given_away", lambda path: [range(165_000, 165_010)])
    monkeypatch.setattr(guest_ids, "_accounts", dict)
    monkeypatch.setattr(guest_ids, "_mapped", lambda: [range(0, 2**32 - 1)])
    monkeypatch.setenv(guest_ids.VARIABLE, said)
    with pytest.raises(InvalidValue, match=why):
        guest_ids.guest_ids()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("1-1", r"1 is the id of the user daemon of this machine.*that no user and no group has"),
        ("2-900", r"50 is the id of the group staff of this machine"),
        ("900-1000", r"1000 is the id of the user ann of this machine"),
    ],
)
def test_a_range_with_the_id_of_an_account_or_a_group_is_refused(
    said: str, why: str, no_ids_yet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [("root", 0), ("daemon", 1), ("ann", 1000)]
    groups = [("root", 0), ("daemon", 1), ("staff", 50)]
    monkeypatch.setattr(
        pwd, "getpwall", lambda: [pwd.struct_passwd((n, "x", i, i, "", "/", "/bin/sh")) for n, i in users]
    )
    monkeypatch.setattr(grp, "getgrall", lambda: [grp.struct_group((n, "x", i, [])) for n, i in groups])
    monkeypatch.setattr(guest_ids, "_given_away", lambda path: [])
    monkeypatch.setattr(guest_ids, "_mapped", lambda: [range(0, 2**32 - 1)])
    monkeypatch.setenv(guest_ids.VARIABLE, said)
    with pytest.raises(InvalidValue, match=why):
        guest_ids.guest_ids()
    monkeypatch.setenv(guest_ids.VARIABLE, "1001-1010")
    made = guest_ids.guest_ids()
    assert made.ids == range(1001, 1011)
    made.leave_to_parent()


def test_a_range_that_this_user_namespace_lacks_is_refused(no_ids_yet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_ids, "_mapped", lambda: [range(0, 65536)])
    monkeypatch.setenv(guest_ids.VARIABLE, "70000-70100")
    with pytest.raises(InvalidValue, match="does not have all of these ids"):
        guest_ids.guest_ids()


def test_a_range_that_is_named_is_used(no_ids_yet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_ids, "_mapped", lambda: [range(0, 2**32 - 1)])
    monkeypatch.setenv(guest_ids.VARIABLE, "700000000-700000009")
    made = guest_ids.guest_ids()
    assert made.take() in range(700_000_000, 700_000_010)
    made.leave_to_parent()


@pytest.mark.parametrize(
    ("mapped", "accounts", "expected"),
    [
        ([range(0, 2**32 - 1)], {}, guest_ids._USUAL),
        ([range(0, 65536)], {}, range(65534 - 1024, 65534)),
        ([range(0, 65536)], {65000: "user ann"}, range(65001, 65534)),
        ([range(0, 1), range(1000, 1001)], {}, range(1000, 1001)),
        ([range(0, 5)], {}, range(1, 5)),
    ],
)
def test_what_is_used_unless_told_is_nobodys(
    mapped: list[range], accounts: dict[int, str], expected: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_ids, "_mapped", lambda: mapped)
    monkeypatch.setattr(guest_ids, "_accounts", lambda: accounts)
    monkeypatch.setattr(guest_ids, "_given_away", lambda path: [])
    assert guest_ids._found() == expected


def test_root_without_further_ids_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_ids, "_mapped", lambda: [range(0, 1)])
    with pytest.raises(SandboxUnavailable, match=r"no ids besides its own.*run as an ordinary user"):
        guest_ids._found()


def test_locks_lie_in_a_file_that_nobody_else_can_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_to_all, a_link, good = (tmp_path / name for name in ("open", "link", "good"))
    for folder in (open_to_all, a_link, good):
        folder.mkdir()
    (open_to_all / "actbox-guest-ids").touch()
    (open_to_all / "actbox-guest-ids").chmod(0o666)
    (a_link / "actbox-guest-ids").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(guest_ids, "_FOLDERS", [str(open_to_all), str(a_link), str(tmp_path / "none"), str(good)])
    os.close(guest_ids._open_locks())
    assert (good / "actbox-guest-ids").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "elsewhere").exists()
    monkeypatch.setattr(guest_ids, "_FOLDERS", [str(open_to_all)])
    with pytest.raises(SandboxUnavailable, match="is not root's alone"):
        guest_ids._open_locks()
