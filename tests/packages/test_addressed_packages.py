"""Packages from Git repositories and archives that a requirement names by their address."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actbox import Policy
from actbox.codeact import CallbackApprover
from actbox.tools import ApprovalDecision, ApprovalRequest

from .git_server import commit, serving_git
from .index_server import IndexServer
from .kits import USE_SOURCE as USE
from .kits import building, policy_of, run
from .wheel_factory import make_source, make_wheel, sha256_of, source_files

pytestmark = pytest.mark.slow


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "host").mkdir()
    with serving_git(tmp_path / "host", monkeypatch) as address:
        yield address


class Asked:
    """An approver who approves and remembers the questions."""

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []
        self.approver = CallbackApprover(self._decide)

    def _decide(self, request: ApprovalRequest) -> ApprovalDecision:
        self.requests.append(request)
        return ApprovalDecision(True, by="ann", standing=True)


async def test_a_commit_is_asked_about_at_each_use_and_built_once(
    index: IndexServer, host: str, tmp_path: Path
) -> None:
    made = commit(tmp_path / "host" / "kit", source_files("kit_source", code="import uuid\nfacts = uuid.uuid4().hex"))
    asked, wanted = Asked(), f"kit-source @ git+{host}/kit.git@main"
    policy = building(index, asked.approver, auto_approved=[])
    first = await run(policy, USE, wanted)
    second = await run(policy, USE, wanted)
    assert first.success and first.value == second.value, first
    assert f"kit-source 1.0 was built here from git+{host}/kit.git@{made}" in first.warnings
    assert [str(one.trust) for one in first.distributions] == ["git"]
    assert len(asked.requests) == 2
    assert all(f"git+{host}/kit.git@main is built first" in one.reason for one in asked.requests)
    later = commit(tmp_path / "host" / "kit", source_files("kit_source", code="facts = 'later'"))
    third = await run(policy, USE, wanted)
    assert third.value == "later" and f"kit.git@{later}" in third.warnings[-1], third
    offline = building(index, asked.approver, offline=True, auto_approved=[])
    pinned = await run(offline, USE, f"kit-source @ git+{host}/kit.git@{made}")
    assert pinned.value == first.value and made in asked.requests[3].reason, pinned


async def test_a_project_below_the_top_of_its_repository_is_built(
    index: IndexServer, host: str, tmp_path: Path
) -> None:
    files = {f"below/here/{name}": data for name, data in source_files("kit_source", requires=("kit-words",)).items()}
    commit(tmp_path / "host" / "kit", files)
    asked = Asked()
    policy = building(index, asked.approver, auto_approved=[])
    result = await run(policy, USE, f"kit-source @ git+{host}/kit.git#subdirectory=below/here")
    assert result.value == 1, result
    assert [[one.name for one in each.packages] for each in asked.requests][1:] == [["kit-source", "kit-words"]]
    assert f"kit_source-1.0-py3-none-any.whl is from git+{host}/kit.git@" in asked.requests[1].reason


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("git+{host}/kit.git@nowhere", "'nowhere' is no branch, tag or whole commit of it"),
        ("git+{host}/none.git@" + "a" * 40, "cannot be had"),
        ("git+{host}/kit.git", "the result is kit-other 1.0"),
    ],
)
async def test_what_git_does_not_have_is_named(
    address: str, why: str, index: IndexServer, host: str, tmp_path: Path
) -> None:
    commit(tmp_path / "host" / "kit", source_files("kit_other"))
    policy = building(index, Asked().approver, auto_approved=[])
    result = await run(policy, USE, f"kit-source @ {address.format(host=host)}")
    assert result.error is not None and why in result.error.message, result.error
    assert "kit" in result.error.message


async def test_nobody_is_asked_about_a_commit_that_is_not_built(index: IndexServer) -> None:
    asked = Asked()
    policy = policy_of(index, asked.approver)
    result = await run(policy, USE, "kit-source @ git+https://127.0.0.1:9/kit.git@main")
    assert result.error is not None and "PackagePolicy(source_builds=True)" in result.error.message
    assert asked.requests == []


async def test_a_host_hears_nothing_before_somebody_has_approved(index: IndexServer, host: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        no = CallbackApprover(lambda request: ApprovalDecision(False, by="ann"))
        address = f"git+https://127.0.0.1:{silent.getsockname()[1]}/secret.git@main"
        result = await run(building(index, no), USE, f"kit-source @ {address}")
        assert result.error is not None and result.error.type == "PackageNotApproved"
        with pytest.raises(BlockingIOError):
            silent.accept()


async def test_an_archive_at_an_address_is_had_with_what_it_needs(
    index: IndexServer, host: str, tmp_path: Path
) -> None:
    wheel = make_wheel(
        tmp_path / "host", "kit_source", files={"kit_source.py": b"facts = 2\n"}, requires=("kit-words",)
    )
    asked = Asked()
    without: Policy = policy_of(index, asked.approver, auto_approved=[])
    address = f"kit-source @ {host}/{wheel.name}"
    assert (await run(without, USE, f"{address}#sha256={sha256_of(wheel)}")).value == 2
    wrong = await run(without, USE, f"{address}#sha256={'0' * 64}")
    assert wrong.error is not None and "is to have sha256:000" in wrong.error.message
    source = make_source(tmp_path / "host", code="facts = 3")
    assert (await run(building(index, asked.approver), USE, f"kit-source @ {host}/{source.name}")).value == 3
