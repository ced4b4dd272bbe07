"""Blocked packages are refused in every spelling, whatever brings them, and as copies that a program has by name."""

from __future__ import annotations

import dataclasses

import pytest

import actbox
from actbox import ErrorInfo, ErrorKind, ExecutionResult, FileMount, Policy, Program, SandboxUnavailable
from actbox.core.packages import Environment, PackagePolicy, PackageRules
from actbox.packages import provider
from actbox.packages.import_names import modules_of

from .index_server import IndexServer
from .kits import policy_of, run
from .wheel_factory import make_wheel

pytestmark = pytest.mark.slow

WHEEL = "kit_forbidden-1.0-py3-none-any.whl"


def blocked(result: ExecutionResult) -> str:
    assert result.error is not None and result.stdout == "", result
    assert (result.error.kind, result.error.type) == (ErrorKind.POLICY, "PackageBlocked"), result.error
    return result.error.message


@pytest.mark.parametrize(
    "asked", ["kit-forbidden", "KIT.Forbidden>=1", "kit__forbidden[all]", "kit-deep", "kit-greeting[evil]"]
)
async def test_no_spelling_no_extra_and_no_package_in_between_brings_it(asked: str, index: IndexServer) -> None:
    index.is_modern = True
    extra = "Provides-Extra: evil\nRequires-Dist: kit-forbidden; extra == 'evil'\n"
    make_wheel(index.folder, "kit_greeting", "2.0", metadata=extra)
    make_wheel(index.folder, "kit_deep", requires=("kit-trojan",))
    policy = policy_of(index, auto_approved=["kit-greeting", "kit-deep"])
    assert asked.partition(">")[0].partition("[")[0] in blocked(await run(policy, "print('ran')", asked)).replace(
        "kit-forbidden==1.0", asked
    )
    assert WHEEL not in index.files_fetched()


async def test_a_package_without_the_extra_is_had(index: IndexServer) -> None:
    extra = "Provides-Extra: evil\nRequires-Dist: kit-forbidden; extra == 'evil'\n"
    make_wheel(index.folder, "kit_greeting", "2.0", metadata=extra)
    assert (await run(policy_of(index), "import kit_greeting\nkit_greeting.here", "kit-greeting")).value is True


VENDORED = {
    "a wheel by mount": "import sys\nsys.path.insert(0, f'/wheels/{wheel}')",
    "a wheel that the program unpacks": (
        "import sys, zipfile\nzipfile.ZipFile(f'/wheels/{wheel}').extractall('own')\nsys.path.insert(0, 'own')"
    ),
    "a copy in its own files": "import sys\nsys.path.insert(0, '/input/vendored')",
}


@pytest.mark.parametrize("way", VENDORED.values(), ids=VENDORED)
@pytest.mark.parametrize("environment", ["clean", "host"])
async def test_a_copy_that_a_program_brings_cannot_be_imported_by_its_name(
    way: str, environment: str, index: IndexServer
) -> None:
    rules = PackageRules(blocked=["Kit.Forbidden"], auto_approved=["pydantic"])
    mount = FileMount(index.folder, "/wheels")
    packages = PackagePolicy(python=rules, index=index.address)
    policy = Policy(environment=environment, packages=packages, mounts=(mount,))
    files = {"vendored/kit_forbidden.py": b"", "vendored/kit_words.py": b"word = 'mine'\n"}
    use = "import kit_forbidden\nprint('ran')"
    code = f"wheel = {WHEEL!r}\n{way}\n"
    async with actbox.open_sandbox("linux", policy=policy) as box:
        message = blocked(await box.run(Program(code + use, files=files)))
        assert message == "kit_forbidden is blocked by the policy (package Kit.Forbidden)"
        async with box.session() as session:
            assert blocked(await session.run(Program(code + use, files=files))) == message
        other = "try: import kit_forbidden\nexcept ImportError as error: said = type(error).__name__\n"
        other += "import sys\nsys.path.insert(0, '/input/vendored')\nimport kit_words\n[said, kit_words.word]"
        assert (await box.run(Program(code + other, files=files))).value == ["PackageBlocked", "mine"]


async def test_nothing_can_be_downloaded_from_the_index_by_a_program(index: IndexServer) -> None:
    code = f"import urllib.request\nurllib.request.urlopen({index.address!r} + '/kit-forbidden')"
    result = await run(policy_of(index), code, "kit-greeting")
    assert result.error is not None and result.error.type == "URLError"
    assert not any("forbidden" in path for path in index.requests)


def test_the_modules_of_a_package_are_those_of_its_name_and_of_the_table_but_no_standard_ones() -> None:
    assert modules_of("Pillow") == ("PIL", "Pillow", "pillow")
    assert modules_of("dataclasses") == ()
    assert "cv2" in modules_of("OpenCV-Python") and "psycopg2" in modules_of("psycopg2-binary")


def test_of_the_packages_of_a_module_the_approved_one_is_taken(index: IndexServer) -> None:
    found = [
        provider.provider().package_of("cv2", policy_of(index, **rules), may_ask)
        for rules in ({"auto_approved": ["opencv-contrib-python"]}, {"blocked": ["opencv-python-headless"]})
        for may_ask in (False, True)
    ]
    refused = found.pop(2)
    assert isinstance(refused, ErrorInfo) and refused.type == "PackageBlocked"
    assert found == ["opencv-contrib-python", "opencv-contrib-python", "opencv-python"]


@pytest.mark.parametrize("path", ["kit_forbidden.py", "kit_forbidden/core.py", "google/cloud/storage/blob.py"])
async def test_an_approved_package_with_a_copy_of_a_blocked_one_is_refused(path: str, index: IndexServer) -> None:
    make_wheel(index.folder, "kit_good", files={path: b"", "google/kit.py": b""})
    rules = {"auto_approved": ["kit-good"], "blocked": ["kit-forbidden", "google-cloud-storage"]}
    message = blocked(await run(policy_of(index, **rules), "print('ran')", "kit-good"))
    assert message.startswith("kit-good==1.0 is blocked by the policy: it brings ")
    environment = Environment(name="kit", packages=("kit-good",))
    with pytest.raises(SandboxUnavailable, match=r"kit-good==1\.0 is blocked by the policy: it brings "):
        await run(dataclasses.replace(policy_of(index, **rules), environment=environment), "1")


async def test_packages_that_rightly_share_a_module_or_a_namespace_are_had(index: IndexServer) -> None:
    make_wheel(index.folder, "opencv_contrib_python", files={"cv2/__init__.py": b"", "google/kit.py": b""})
    rules = {"auto_approved": ["opencv-contrib-python"], "blocked": ["opencv-python", "google", "google-auth"]}
    result = await run(policy_of(index, **rules), "import cv2\n1", "opencv-contrib-python")
    assert result.value == 1, result
