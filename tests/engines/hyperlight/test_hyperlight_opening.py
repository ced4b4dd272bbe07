"""What can be asked of the engine before anything starts, and what it says where it cannot start."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import actbox
from actbox import FileMount, InvalidValue, Limits, Policy, SandboxUnavailable, Secret, Unsupported
from actbox.sandbox.engines.hyperlight import options
from actbox.sandbox.engines.hyperlight.check import why_no_hypervisor
from actbox.sandbox.engines.hyperlight.options import GuestOptions, size_of
from actbox.sandbox.engines.hyperlight.trees import Quota
from actbox.sandbox.guest.beneath import FOLDER

_MIB = 2**20
trying = import_module("actbox.sandbox.engines.hyperlight.check")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the packages were installed, whether they are or not: nothing here imports them."""
    monkeypatch.setattr(options, "missing_package", lambda backend, module: "")


@pytest.mark.parametrize(
    "given, size",
    [
        ("50Mi", 50 * _MIB),
        ("2Gi", 2 * 2**30),
        (" 51200 Ki", 50 * _MIB),
        ("52428800", 50 * _MIB),
        (60 * _MIB, 60 * _MIB),
    ],
)
def test_sizes_are_texts_with_a_unit_or_bytes(given: object, size: int) -> None:
    assert size_of("heap_size", given, 25 * _MIB) == size


@pytest.mark.parametrize("given", ["", "50", "50M", "-1Mi", "1.5Gi", "1Ti", 0, -5, 1.5, True, None, b"5Mi", "99999Gi"])
def test_what_is_no_size_is_refused_by_its_name(given: object) -> None:
    with pytest.raises(InvalidValue, match="heap_size"):
        size_of("heap_size", given, 25 * _MIB)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"backend": "jvm"}, "backend"),
        ({"backend": ["x"]}, "backend"),
        ({"module": ""}, "module"),
        ({"module": 5}, "module"),
        ({"module": "a.b", "module_path": "/x.aot"}, "not both"),
        ({"module_path": "/nowhere/guest.aot"}, "no guest module at /nowhere/guest.aot"),
        ({"module": "guest.aot"}, "no guest module"),
        ({"backend": "javascript", "module": "a.b"}, "no module"),
        ({"heap_size": "1Ki"}, "heap_size"),
        ({"stack_size": "36Mi"}, "stack_size"),
        ({"machines": 0}, "machines"),
        ({"machines": True}, "machines"),
        ({"image": "x"}, "no option 'image'"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        actbox.open_sandbox("hyperlight", **given)


def test_a_module_is_a_packaged_one_another_or_a_file(tmp_path: Path) -> None:
    guest = tmp_path / "guest.aot"
    guest.touch()
    of = lambda **given: GuestOptions.of(Limits(), **given)  # noqa: E731
    assert of().module == of(module="python_guest.path").module == "python_guest.path"
    assert of(module="mine.guest").module == "mine.guest"
    assert of(module=str(guest)).module == of(module_path=str(guest)).module == str(guest)
    assert of(module="python_guest.path", module_path=str(guest)).module == str(guest)
    javascript = of(backend="javascript", module="python_guest.path")
    assert (javascript.module, javascript.language) == ("", "javascript")


def test_a_machine_never_has_more_memory_than_the_limit() -> None:
    assert GuestOptions.of(Limits(memory_mib=80)).memory_bytes == 80 * _MIB
    for given in ({"memory_mib": 40}, {"memory_mib": 61}):
        with pytest.raises(Unsupported, match=r"at least 62 MiB.*raise it to 62.*linux"):
            GuestOptions.of(Limits(**given))
    with pytest.raises(Unsupported, match=r"has 2144 MiB, and Limits.memory_mib allows 512: raise it to 2144"):
        GuestOptions.of(Limits(memory_mib=512), heap_size="2Gi")
    with pytest.raises(Unsupported, match="memory_mib allows 100"):
        GuestOptions.of(Limits(memory_mib=100), stack_size="90Mi")


@pytest.mark.parametrize(
    "policy",
    [
        {"secrets": [Secret("key", "s3cret-value", as_file=True)]},
        {"limits": Limits(cpus=0.5)},
    ],
)
def test_what_the_engine_cannot_keep_is_refused_and_another_named(policy: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="linux"):
        actbox.open_sandbox("hyperlight", policy=Policy(**policy))


def test_an_overlay_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="overlay"):
        actbox.open_sandbox("hyperlight", policy=Policy(mounts=[FileMount(tmp_path, "/data", "overlay")]))


def test_a_package_that_is_missing_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "missing_package", lambda backend, module: "hyperlight-sandbox")
    with pytest.raises(SandboxUnavailable, match=r"hyperlight-sandbox.*pip install 'actbox\[hyperlight\]'"):
        actbox.open_sandbox("hyperlight")
    found = trying.check()
    assert (found.works, found.advice) == (False, "pip install 'actbox[hyperlight]'")
    assert "pip install" not in found.reason


def test_no_device_is_said_at_once_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "DEVICES", ("/dev/no-such-kvm", "/dev/no-such-mshv"))
    found = trying.check()
    assert not found.works
    assert "no hypervisor" in found.reason and "firmware" in found.advice


async def test_a_sandbox_without_a_hypervisor_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "DEVICES", ("/dev/no-such-kvm",))
    with pytest.raises(SandboxUnavailable, match="no hypervisor"):
        await actbox.open_sandbox("hyperlight").start()


def test_a_device_that_may_not_be_opened_names_its_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(trying, "DEVICES", (str(device),))

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(trying.os, "open", refuse)
    reason, advice = why_no_hypervisor()
    assert "may not open" in reason
    assert "usermod -aG" in advice


def test_another_system_is_told_which_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    reason, advice = why_no_hypervisor()
    assert "win32" in reason and "wasm" in advice


@pytest.mark.slow
def test_the_check_neither_raises_nor_hangs_here() -> None:
    found = actbox.check("hyperlight")
    assert found.works or (found.reason and found.advice)


def test_a_quota_counts_what_others_wrote_and_every_entry(tmp_path: Path) -> None:
    folder = os.open(tmp_path, FOLDER)
    quota = Quota(folder, 1_000_000)
    quota.take(500_000)
    (tmp_path / "others").write_bytes(bytes(900_000))
    with pytest.raises(OSError, match="No space left"):
        quota.take(200_000)
    (tmp_path / "others").unlink()
    quota.take(200_000)
    os.close(folder)


def test_runs_are_kept_from_each_other_and_reach_domains_and_mounts_in_two_modes() -> None:
    for backend in ("wasm", "javascript"):
        traits = actbox.open_sandbox("hyperlight", backend=backend).traits
        assert (traits.walls, traits.domains, traits.mounts) == ("run", True, ("ro", "rw"))


def test_javascript_has_no_sessions_and_says_so() -> None:
    box = actbox.open_sandbox("hyperlight", backend="javascript")
    assert box.traits.languages == ("javascript",)
    with pytest.raises(Unsupported, match="no sessions; the node engine has"):
        box.session()


def test_the_agent_frameworks_classes_take_the_engines_options() -> None:
    pytest.importorskip("agent_framework", reason="the extra actbox[agent-framework] is not installed")
    from actbox.integrations.agent_framework import HyperlightCodeActProvider, HyperlightExecuteCodeTool

    for made in (HyperlightCodeActProvider, HyperlightExecuteCodeTool):
        with pytest.raises(InvalidValue, match="heap_size"):
            made(heap_size="much")
        with pytest.raises(InvalidValue, match="backend"):
            made(backend="jvm")
    assert "JavaScript" in HyperlightExecuteCodeTool(backend="javascript").description
    description = HyperlightExecuteCodeTool(stack_size="2Gi", limits=Limits(memory_mib=4096)).description
    assert "There is no `await`" in description
