"""Packages that have no wheel: when one is built from a source distribution, where that runs, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actbox import ErrorKind
from actbox.codeact import CallbackApprover
from actbox.core.packages import Environment
from actbox.packages import provider
from actbox.packages.resolving import CannotResolve
from actbox.sandbox.dependencies import Target
from actbox.tools import ApprovalDecision, ApprovalRequest

from .index_server import IndexServer
from .kits import USE_SOURCE as USE
from .kits import building, policy_of, run
from .wheel_factory import make_source, make_wheel, sha256_of

pytestmark = pytest.mark.slow

LOOK_AROUND = """
import os, socket, kit_tool
def reaches(port):
    try: socket.create_connection(("127.0.0.1", port), 2)
    except OSError: return False
    return True
facts = [reaches({port}), os.path.exists({home!r}), os.getcwd().startswith("/workspace"), kit_tool.word]
"""


async def test_a_wheel_is_built_once_in_a_sandbox_without_a_network(index: IndexServer, tmp_path: Path) -> None:
    make_wheel(index.folder, "kit_tool", files={"kit_tool.py": b"word = 'made'\n"})
    port = int(index.address.split(":")[2].split("/")[0])
    source = make_source(
        index.folder,
        code=LOOK_AROUND.format(port=port, home=str(tmp_path)),
        requires=("kit-words",),
        tools=("kit-tool",),
    )
    first = await run(building(index), USE, "kit-source")
    assert first.value == [False, False, True, "made"], first
    assert {one.name for one in first.distributions} == {"kit-source", "kit-words"}
    assert f"kit-source 1.0 was built here from sha256:{sha256_of(source)}" in first.warnings
    index.requests.clear()
    second = await run(building(index), USE, "kit-source")
    assert (second.value, index.requests.total()) == (first.value, 0)
    assert list(second.distributions) == list(first.distributions)
    assert (await run(building(index, offline=True), USE, "kit-source")).value == first.value


async def test_without_leave_nothing_is_built_or_fetched(index: IndexServer) -> None:
    make_source(index.folder)
    result = await run(policy_of(index, auto_approved=["kit-source"]), USE, "kit-source")
    assert result.error is not None and result.error.kind is ErrorKind.MISSING_DEPENDENCY
    assert "PackagePolicy(source_builds=True)" in result.error.message
    assert index.files_fetched() == []


@pytest.mark.parametrize("is_modern", [False, True])
async def test_the_version_is_the_one_that_all_requirements_admit(is_modern: bool, index: IndexServer) -> None:
    index.is_modern = is_modern
    for version in ("1.0", "1.5", "2.0"):
        make_source(index.folder, version=version, code=f"facts = {version!r}")
    make_wheel(index.folder, "kit_needs", requires=("kit-source>=1,<2",))
    result = await run(building(index, auto_approved=["kit-needs"]), USE, "kit-needs")
    assert result.value == "1.5", result
    assert "kit_source-2.0.tar.gz" not in index.files_fetched()


@pytest.mark.parametrize(
    ("project", "why"),
    [
        ({"made": "kit_other"}, "the result is kit-other 1.0"),
        ({"code": "raise SystemExit('no compiler here')"}, "no compiler here"),
        ({"code": "import time\ntime.sleep(600)"}, "cannot be"),
        ({"code": "facts = open('big', 'wb').write(bytes(2**30 + 2**21))"}, "its build fails"),
        ({"tools": ("kit-source-tool",)}, "its build requires kit-source-tool, which has no wheel"),
        ({"tools": ("kit-forbidden",)}, "kit-forbidden==1.0, which kit-source brings, is blocked by the policy"),
        ({"tools": ("kit-trojan",)}, "kit-forbidden==1.0, which kit-source brings, is blocked by the policy"),
    ],
)
async def test_a_build_that_goes_wrong_is_named_and_leaves_nothing(
    project: dict[str, Any], why: str, index: IndexServer, tmp_path: Path
) -> None:
    make_source(index.folder, **project)
    make_source(index.folder, "kit_source_tool")
    policy = building(index)
    assert policy.packages is not None
    seconds = 8 if "sleep" in str(project) else 120
    result = await run(replace(policy, packages=replace(policy.packages, install_seconds=seconds)), USE, "kit-source")
    assert result.error is not None
    assert why in result.error.message, result.error.message
    assert "kit" in result.error.message
    assert [*(tmp_path / "cache" / "temporary").iterdir()] == []
    assert not [path for path in (tmp_path / "cache" / "artifacts").iterdir() if "source" in path.name]


async def test_a_source_is_not_built_before_somebody_has_approved_it(index: IndexServer) -> None:
    make_source(index.folder, requires=("kit-words",))
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(len(asked) > 1, by="ann")

    policy = building(index, CallbackApprover(decide), auto_approved=[], requires_approval=["kit-source"])
    refused = await run(policy, USE, "kit-source")
    assert refused.error is not None and refused.error.type == "PackageNotApproved"
    assert index.files_fetched() == [] and "kit_source-1.0.tar.gz is built first" in asked[0].reason
    approved = await run(policy, USE, "kit-source")
    assert approved.value == 1, approved
    # Nobody could know before the build that it brings words.
    assert [[one.name for one in each.packages] for each in asked[1:]] == [["kit-source"], ["kit-source", "kit-words"]]


async def test_a_wheel_that_somebody_has_edited_is_built_anew(index: IndexServer, tmp_path: Path) -> None:
    make_source(index.folder)
    await run(building(index), USE, "kit-source")
    (module,) = (tmp_path / "cache" / "artifacts").glob("*/site/kit_source.py")
    module.write_text("facts = 'edited'\n")
    assert (await run(building(index), USE, "kit-source")).value == 1


async def test_a_backend_gets_what_its_hook_asks_for(index: IndexServer) -> None:
    make_wheel(index.folder, "kit_tool", files={"kit_tool.py": b"word = 'asked for'\n"})
    make_source(index.folder, code="import kit_tool\nfacts = kit_tool.word", asks="kit-tool")
    assert (await run(building(index), USE, "kit-source")).value == "asked for"


async def test_a_hash_of_a_requirement_is_that_of_the_source(index: IndexServer) -> None:
    right = sha256_of(make_source(index.folder))
    wrong = await run(building(index), USE, f"kit-source --hash=sha256:{'0' * 64}")
    assert wrong.error is not None and "another hash than kit_source-1.0.tar.gz" in wrong.error.message
    assert (await run(building(index), USE, f"kit-source --hash=sha256:{right}")).value == 1


async def test_a_named_environment_has_what_was_built(index: IndexServer, tmp_path: Path) -> None:
    make_source(index.folder)
    made = replace(building(index), environment=Environment(name="made", packages=("kit-source",)))
    assert (await run(made, USE)).value == 1
    (module,) = (tmp_path / "cache" / "artifacts").glob("*/site/kit_source.py")
    shutil.rmtree(module.parents[1])
    module.parents[1].with_suffix(".json").unlink()
    await provider.provider().environments.build(made.environment, made.packages)
    assert len([*(tmp_path / "cache" / "artifacts").glob("*/site/kit_source.py")]) == 1


async def test_a_compiled_result_is_for_this_machine_only(index: IndexServer, tmp_path: Path) -> None:
    make_source(index.folder, tag="cp313-cp313-linux_x86_64")
    with pytest.raises(CannotResolve, match=r"does not fit cpython-3\.13 x86_64 musl 2"):
        await provider.provider().environments.build(
            Environment(name="made", packages=("kit-source",)),
            building(index).packages,
            target=Target("3.13", "x86_64", "musl", 2),
        )
