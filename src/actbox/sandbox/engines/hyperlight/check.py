"""Checks whether the `hyperlight` engine works here: looks at the packages and the device, then starts a machine."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from actbox.core.errors import SandboxUnavailable
from actbox.core.limits import Limits
from actbox.sandbox.traits import EngineCheck, check_failed

from .machine import Machine
from .options import ADVICE, GuestOptions, check_installed
from .traits import hyperlight_traits

CHECK_SECONDS = 20.0
"""The most seconds that a check waits for a machine: many times the usual start, even on an emulated processor."""
DEVICES = ("/dev/kvm", "/dev/mshv")
"""The hypervisor devices: KVM, and Microsoft's MSHV."""
_SWITCH_ON = (
    "Switch virtualisation on in the machine's firmware, or nested virtualisation where this is a virtual machine"
    " itself, and load the module kvm-intel or kvm-amd"
)


def check(options: GuestOptions | None = None) -> EngineCheck:
    """Start a machine and end it, unless a package or the hypervisor is missing.

    Takes some tenths of a second. A machine that is not ready within `CHECK_SECONDS` counts as failed.
    """
    try:
        options = options or usual_options()
        check_installed(options)
    except SandboxUnavailable as error:
        return check_failed("hyperlight", error, ADVICE)
    reason, advice = why_no_hypervisor()
    if not reason:
        try:
            # In a new thread, where no event loop can be running.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, _try(options)).result()
        except SandboxUnavailable as error:
            reason, advice = str(error), _advice_for(str(error))
    return EngineCheck(
        engine="hyperlight", works=not reason, reason=reason, advice=advice, traits=hyperlight_traits(options)
    )


def usual_options() -> GuestOptions:
    """Return the options of a check: those of the installed backend, `wasm` if there are both."""
    usual = GuestOptions.of(Limits())
    try:
        check_installed(usual)
    except SandboxUnavailable:
        other = GuestOptions.of(Limits(), backend="javascript")
        try:
            check_installed(other)
        except SandboxUnavailable:
            return usual
        return other
    return usual


def why_no_hypervisor() -> tuple[str, str]:
    """Return why no virtual machine can run here and what to do, judged by the device; two "" if nothing is wrong."""
    if sys.platform != "linux":
        return (
            f"the hyperlight engine needs Linux with KVM or MSHV, and this is {sys.platform}",
            "Use the wasm engine, or run actbox in a Linux virtual machine that may have virtual machines itself.",
        )
    device = next((path for path in DEVICES if Path(path).exists()), "")
    if not device:
        return f"there is no hypervisor: neither {' nor '.join(DEVICES)}", f"{_SWITCH_ON}."
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return (
                f"this user may not open {device}",
                f"Add the user to the device's group (`usermod -aG {_group_of(device)} …`), or in a container give it"
                f" the device (`--device {device}`).",
            )
        return f"{device} cannot be opened: {error.strerror}", f"{_SWITCH_ON}."
    return "", ""


async def _try(options: GuestOptions) -> None:
    machine = await Machine.start(options, seconds=CHECK_SECONDS)
    await machine.end()


def _advice_for(reason: str) -> str:
    if "not ready within" in reason:
        return "Try again when this machine has less to do; else try another engine, such as wasm."
    if "VCPU" in reason or "hypervisor" in reason.lower():
        return f"The device is there, but runs no machine of this kind. {_SWITCH_ON}."
    return "Run `python -c 'import hyperlight_sandbox'`, and compare the versions of the hyperlight packages."


def _group_of(device: str) -> str:
    import grp

    try:
        return grp.getgrgid(os.stat(device).st_gid).gr_name
    except (KeyError, OSError):
        return "kvm"
