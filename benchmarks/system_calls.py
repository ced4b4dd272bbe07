"""How many system calls a guest reaches, beside Docker's and gVisor's filters; makes `docs/system-calls.md`.

    python benchmarks/system_calls.py                 write the page
    python benchmarks/system_calls.py --check         end with 1 if the page is not what the table says
    python benchmarks/system_calls.py --count FOLDER  count those of the two others again, and print them

For `--count`, FOLDER has two packages of Debian's unpacked in it (`dpkg-deb -x`), golang-github-docker-docker-dev and
golang-gvisor-gvisor-dev, and the kernel's headers are installed (linux-libc-dev), which say what numbers names have.
"""

from __future__ import annotations

import argparse
import errno
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from actbox.sandbox.nursery import seccomp
from actbox.sandbox.nursery.syscall_numbers import HIGHEST, NUMBERS
from actbox.sandbox.nursery.syscall_table import (
    ALLOWED,
    CHROOT,
    CONDITIONAL,
    CONDITIONAL_COUNTED,
    KILLED,
    REFUSED,
    Condition,
    Never,
    NeverWith,
    NullWith,
    Only,
    Without,
)

PAGE = Path(__file__).parent.parent / "docs" / "system-calls.md"
_ARCHITECTURES = ("x86_64", "aarch64")
_SOURCES = "usr/share/gocode/src"
_HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
# What a container has unless more is asked for.
_DOCKER_CAPABILITIES = {
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID"),
    *("CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL"),
    "CAP_AUDIT_WRITE",
}
_SHOWN_VALUES = 12


@dataclass(frozen=True)
class Count:
    """How many calls get through: whatever their arguments, and where the arguments decide."""

    always: int
    conditional: int

    def __str__(self) -> str:
        return f"{self.always + self.conditional} ({self.conditional} by arguments)"


# Counted with `--count`; the packages are Debian 12's.
PEERS: dict[str, dict[str, Count]] = {
    "Docker's default profile": {"x86_64": Count(290, 2), "aarch64": Count(268, 2)},
    "gVisor's host filter, platform KVM": {"x86_64": Count(45, 25), "aarch64": Count(45, 24)},
    "gVisor's host filter, platform ptrace": {"x86_64": Count(45, 24), "aarch64": Count(45, 24)},
}

_INTRODUCTION = """\
# Which system calls a guest may make

Made from `src/actbox/sandbox/nursery/syscall_table.py` by `python benchmarks/system_calls.py`; a test fails when the
two differ. Another one tries every number from inside a guest and compares what gets through with the table.

What stands in no group is refused with `EPERM`, which a program meets as a `PermissionError` and survives. Numbers
above {highest} look like calls that the kernel lacks (`ENOSYS`). Calls by the 32-bit entry, and by x32 numbers, end
the process, whichever they are. On x86-64, Linux from 6.14 on asks no filter about the numbers 335 and 336
(`uretprobe`, `uprobe`), which it plants itself; called by a program they end it or fail, and do nothing.
"""
_ABOUT_THE_COMPARISON = """\
The first number counts the calls that can get through at all, the one in brackets those of them where the arguments
decide. A forkable session has one more, `chroot`; a guest whose memory a control group counts
has three more, and may share anonymous memory. The others are counted by the same script, from the sources that
Debian 12 has: Docker 20.10.24+dfsg1-1+deb12u1, with the capabilities of a container that asked for none, on a kernel
that has them all; and gVisor 0.0~20221219.0-2, its Sentry, with a network stack of its own. Newer releases differ.

The numbers do not all say the same. Docker's filter is, like ours, what a program itself can reach; it also lets the
same calls through by the 32-bit and x32 entries, which we close. gVisor's is what is left to a program that has broken
its Sentry, a kernel of its own in Go that answers the program's calls first. That it lets so few through is a reason
to choose it where two such walls in a row are wanted.
"""


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only see whether the page is current")
    parser.add_argument("--count", type=Path, metavar="FOLDER", help="count what Docker and gVisor let through")
    arguments = parser.parse_args()
    if arguments.count:
        for name, counts in counted(arguments.count).items():
            print(name, counts)
    elif arguments.check:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit(f"{PAGE} is not what the table says: run python benchmarks/system_calls.py")
    else:
        PAGE.write_text(page())
        print(f"written to {PAGE}")


def ours(arch: str) -> Count:
    """Count what an ordinary guest may call."""
    conditional = {name for _, names, _ in CONDITIONAL for name in names.split() if name in NUMBERS[arch]}
    return Count(len(seccomp.allowed_names(arch)) - len(conditional), len(conditional))


# The page


def page() -> str:
    """Return the page, which is the table in words and nothing else."""
    return "\n".join([*_introduction(), *_comparison(), *_groups()]) + "\n"


def _introduction() -> list[str]:
    return [_INTRODUCTION.format(highest=HIGHEST)]


def _comparison() -> list[str]:
    lines = ["## How many, beside others", "", "| | x86-64 | aarch64 |", "|---|---|---|"]
    for name, counts in {"**actbox**": {arch: ours(arch) for arch in _ARCHITECTURES}, **PEERS}.items():
        lines.append(f"| {name} | {counts['x86_64']} | {counts['aarch64']} |")
    return [*lines, "", _ABOUT_THE_COMPARISON]


def _groups() -> Iterator[str]:
    yield from ("## Allowed", "")
    for reason, names in ALLOWED:
        yield from (f"**{reason}** {_named(names)}", "")
    yield from (f"**Only to sessions that may be forked: {_lower(CHROOT[0])}** {_named(CHROOT[1])}", "")
    yield from ("## Allowed with some arguments", "", "Arguments are counted from 0; all conditions must hold.", "")
    yield from ("| calls | conditions | why |", "|---|---|---|")
    reason = ""
    for given, names, conditions in (*CONDITIONAL, *CONDITIONAL_COUNTED):
        reason = reason if given == "The same." else given.removeprefix("The same: ")
        yield f"| {_named(names)} | {'; '.join(map(_in_words, conditions))} | {reason} |"
    yield from ("", "## Refused with an error of their own choosing", "")
    for reason, names, code in REFUSED:
        yield from (f"**{reason}** `{errno.errorcode[code]}`: {_named(names)}", "")
    yield from ("## Ended", "", "The whole process is ended with `SIGSYS`.", "")
    for reason, names in KILLED:
        yield f"**{reason}** {_named(names)}"


def _named(names: str) -> str:
    return ", ".join(f"`{name}`{_missing_on(name)}" for name in names.split())


def _missing_on(name: str) -> str:
    missing = [arch for arch in _ARCHITECTURES if name not in NUMBERS[arch]]
    return f" (not on {missing[0]})" if missing == ["x86_64"] else ""


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _in_words(condition: Condition) -> str:
    place = f"argument {condition.argument}"
    refusal = f"else `{errno.errorcode[condition.refusal]}`" if condition.refusal else "else 0, and nothing is done"
    if isinstance(condition, Only):
        masked = "" if condition.mask == 0xFFFFFFFF else f", of its bits {condition.mask:#x},"
        if len(condition.values) > _SHOWN_VALUES:
            return f"{place}{masked} is one of {len(condition.values)} in the table, {refusal}"
        return f"{place}{masked} is {_either(condition.values)}, {refusal}"
    if isinstance(condition, Never):
        if condition.mask == 0xFFFFFFFF:
            return f"{place} is not {condition.value}, {refusal}"
        return f"{place}, of its bits {condition.mask:#x}, is not {condition.value:#x}, {refusal}"
    if isinstance(condition, NeverWith):
        values = _either(condition.values)
        return f"{place} is not {values} where argument {condition.other} is {condition.when}, {refusal}"
    if isinstance(condition, NullWith):
        return f"{place} is null where argument {condition.other} is {condition.when}, {refusal}"
    assert isinstance(condition, Without)
    return f"{place} has none of the bits {condition.bits:#x}, {refusal}"


def _either(values: Iterable[int]) -> str:
    *most, last = (f"{int(value):#x}" if value > 255 else str(int(value)) for value in values)
    return f"{', '.join(most)} or {last}" if most else last


# The others


def counted(folder: Path) -> dict[str, dict[str, Count]]:
    """Count what the others let through, on each architecture."""
    docker = next(folder.glob(f"**/{_SOURCES}/github.com/docker/docker/profiles/seccomp/default.json"))
    gvisor = next(folder.glob(f"**/{_SOURCES}/gvisor.dev/gvisor"))
    return {
        "Docker's default profile": {arch: _docker(docker, arch) for arch in _ARCHITECTURES},
        "gVisor's host filter, platform KVM": {arch: _gvisor(gvisor, "kvm", arch) for arch in _ARCHITECTURES},
        "gVisor's host filter, platform ptrace": {arch: _gvisor(gvisor, "ptrace", arch) for arch in _ARCHITECTURES},
    }


def _docker(profile: Path, arch: str) -> Count:
    numbers, always, conditional = _numbers(arch), set(), set()
    for rule in json.loads(profile.read_text())["syscalls"]:
        includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
        if rule["action"] != "SCMP_ACT_ALLOW":
            continue
        if not set(includes.get("caps") or ()) <= _DOCKER_CAPABILITIES:
            continue
        if set(excludes.get("caps") or ()) & _DOCKER_CAPABILITIES:
            continue
        if "arches" in includes and _GO_NAMES[arch] not in includes["arches"]:
            continue
        if _GO_NAMES[arch] in (excludes.get("arches") or ()):
            continue
        found = {numbers[name] for name in rule["names"] if name in numbers}
        (conditional if rule.get("args") else always).update(found)
    return Count(len(always), len(conditional - always))


def _gvisor(sources: Path, platform: str, arch: str) -> Count:
    folder = sources / "pkg" / "sentry" / "platform" / platform
    config = (sources / "runsc" / "boot" / "filter" / "config.go").read_text()
    texts = [_block(config, "var allowedSyscalls"), _block(config, "func controlServerFilters")]
    texts += [(sources / "runsc" / "boot" / "filter" / f"config_{_GO_NAMES[arch]}.go").read_text()]
    texts += [
        file.read_text() for file in (folder / "filters.go", folder / f"filters_{_GO_NAMES[arch]}.go") if file.exists()
    ]
    always, conditional = set(), set()
    for name, rules in re.findall(r"unix\.SYS_(\w+)\]?(?:: *| = )(\{\}|)", "\n".join(texts)):
        (always if rules else conditional).add(name)
    return Count(len(always), len(conditional - always))


def _block(text: str, start: str) -> str:
    return text[text.index(start) :].partition("\n}\n")[0]


def _numbers(arch: str) -> dict[str, int]:
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", _HEADERS[arch].read_text())
    numbers = {name: int(number) for name, number in defined}
    if arch == "aarch64":
        numbers["newfstatat"] = numbers.pop("fstatat")
    return numbers


if __name__ == "__main__":
    main()
