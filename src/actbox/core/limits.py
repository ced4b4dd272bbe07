"""`Limits`: how much time, memory, disk and other resources a run may use."""

from __future__ import annotations

from dataclasses import field, fields

from .errors import InvalidValue
from .lazy_dataclass import dataclass

# The kernel does not run a group of processes that has less than a millisecond in each tenth of a second.
_LEAST_CPUS = 0.01
# The kernel counts processor time as nanoseconds in 64 bits, and other amounts as bytes; no machine has that many.
_MOST_SECONDS = 10**9
_MOST_MIB = 2**30
_MOST_BYTES = 2**50
# The most that 64-bit Linux supports of processors, process ids, and descriptors unless `fs.nr_open` says more.
_MOST_CPUS = 8192
_MOST_PROCESSES = 2**22
_MOST_OPEN_FILES = 2**20
# A frame of the channel stores two lengths, each in 32 bits.
_MOST_MESSAGE_BYTES = 2**31
_MOST_COUNTED = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may use. Each limit has an enforcer, which an engine names in its `traits`.

    A run always has all limits but `disk_mib`; the defaults apply to those not given. Each limit has a maximum, beyond
    which kernels refuse it or count wrong; the maximum is as good as no limit.

    Raises `InvalidValue` for a value that is not a number, not above zero or above the maximum.
    """

    wall_seconds: float = field(
        default=60.0,
        metadata={"unit": "seconds", "most": _MOST_SECONDS, "about": "time from start to end, tools included"},
    )
    cpu_seconds: float = field(
        default=60.0,
        metadata={"unit": "seconds", "most": _MOST_SECONDS, "about": "processor time of all the run's processes"},
    )
    # The default equals that of `processes`: a single-threaded process uses at most one CPU, and threads count as
    # processes.
    cpus: float = field(
        default=64.0,
        metadata={
            "unit": "processors (0.01 or more)",
            "most": _MOST_CPUS,
            "about": "processor time for each second of wall time, at most; the machine's own number limits nothing",
        },
    )
    memory_mib: int = field(
        default=1024, metadata={"unit": "MiB", "most": _MOST_MIB, "about": "memory of all the run's processes"}
    )
    processes: int = field(
        default=64, metadata={"unit": "processes and threads", "most": _MOST_PROCESSES, "about": "alive at once"}
    )
    open_files: int = field(
        default=256, metadata={"unit": "descriptors", "most": _MOST_OPEN_FILES, "about": "open at once in one process"}
    )
    file_mib: int = field(default=256, metadata={"unit": "MiB", "most": _MOST_MIB, "about": "size of one file"})
    workspace_mib: int = field(
        default=512,
        metadata={
            "unit": "MiB",
            "most": _MOST_MIB,
            "about": "all files in /workspace; as much again in /tmp, and 64 MiB in /dev/shm",
        },
    )
    disk_mib: int | None = field(
        default=None,
        metadata={
            "unit": "MiB",
            "most": _MOST_MIB,
            "about": "all files in /workspace, /tmp and /dev/shm together; without it each place has its own bound",
        },
    )
    output_bytes: int = field(
        default=10_000_000, metadata={"unit": "bytes", "most": _MOST_BYTES, "about": "stdout and stderr together"}
    )
    tool_calls: int = field(
        default=10_000, metadata={"unit": "calls", "most": _MOST_COUNTED, "about": "tool calls in one run"}
    )
    tool_bytes: int = field(
        default=256 * 2**20,
        metadata={
            "unit": "bytes",
            "most": _MOST_BYTES,
            "about": "arguments and results of all tool calls of one run together",
        },
    )
    message_bytes: int = field(
        default=16 * 2**20,
        metadata={
            "unit": "bytes",
            "most": _MOST_MESSAGE_BYTES,
            "about": "one message between host and guest: a tool's arguments or result; the value has a quarter of it",
        },
    )
    artifacts: int = field(
        default=200, metadata={"unit": "files", "most": _MOST_COUNTED, "about": "artifacts collected from one run"}
    )
    artifact_mib: int = field(
        default=256, metadata={"unit": "MiB", "most": _MOST_MIB, "about": "all artifacts of one run together"}
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is None and spec.default is None:
                continue
            number = isinstance(value, (int, float) if spec.type == "float" else int) and not isinstance(value, bool)
            if not number or not 0 < value < float("inf"):
                kind = "number" if spec.type == "float" else "whole number"
                raise InvalidValue(
                    f"Limits.{spec.name} must be a {kind} of {spec.metadata['unit']} above zero, not {value!r}"
                )
            if value > spec.metadata["most"]:
                unit = spec.metadata["unit"].partition(" (")[0]
                raise InvalidValue(
                    f"Limits.{spec.name} can be at most {spec.metadata['most']:,} {unit}, which is as good as no limit"
                )
        if self.cpus < _LEAST_CPUS:
            raise InvalidValue(f"Limits.cpus must be at least {_LEAST_CPUS:g} processors, not {self.cpus!r}")

    @property
    def full_disk(self) -> str:
        """The name of the limit that a program has reached if there is no room left for its files."""
        return "workspace_mib" if self.disk_mib is None or self.disk_mib > self.workspace_mib else "disk_mib"

    def to_dict(self) -> dict[str, float | None]:
        """Return every limit by name, as plain JSON data; `None` is no limit."""
        return {spec.name: getattr(self, spec.name) for spec in fields(self)}
