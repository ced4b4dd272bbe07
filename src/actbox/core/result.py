"""`ExecutionResult`: the output, value, files, error and resource usage of a run."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from . import presentation
from .changes import FileChange
from .errors import ErrorInfo, ErrorKind
from .labels import PUBLIC, Label
from .lazy_dataclass import dataclass
from .packages import Distribution, Distributions, TrustLevel
from .values import pack, unpack

# Types of files that agents often make and that `mimetypes` does not know on every machine.
_MEDIA_TYPES = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".webp": "image/webp",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

_NO_DISTRIBUTIONS: Final = Distributions()

EXIT_NOT_RUN: Final = 125
"""The exit code of a program that did not run."""


def media_type_of(name: str) -> str:
    """Return the media type for a file name's suffix, or `application/octet-stream` if the suffix is unknown."""
    import mimetypes

    suffix = PurePosixPath(name).suffix.lower()
    return _MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a run left below `/output`. `name` is its path below `/output`; `data` is its content as bytes, never
    interpreted.

    `label` is that of the run: the join of what the program could have read. `claimed` is the lower label that the
    program says the file has, `None` if it said nothing; `actbox.capabilities.grant` has it verified.
    """

    name: str
    data: bytes = field(repr=False)
    media_type: str = ""
    label: Label = field(default=PUBLIC, repr=False)
    claimed: Label | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.media_type:
            object.__setattr__(self, "media_type", media_type_of(self.name))

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return len(self.data)

    def save(self, folder: str | Path) -> Path:
        """Write the file below `folder`, creating missing parents, and return its path.

        The name comes from the guest: a path that would leave `folder`, also through a link, raises `ValueError`.
        """
        root = Path(folder).resolve()
        root.mkdir(parents=True, exist_ok=True)
        target = (root / self.name).resolve()
        if target == root or not target.is_relative_to(root):
            raise ValueError(f"artifact {self.name!r} would leave {root}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.data)
        return target

    def to_dict(self) -> dict[str, Any]:
        """Return the artifact as plain JSON data, with the content as base64."""
        document = {
            "name": self.name,
            "media_type": self.media_type,
            "size": self.size,
            "data": base64.b64encode(self.data).decode("ascii"),
        }
        if self.claimed is not None:
            document["claimed"] = str(self.claimed)
        return document | _label_field(self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that a run used: times in milliseconds, memory in bytes (of the largest process).

    `wall_ms` counts from the moment when the program could begin; `queue_ms` is the time before that, waiting for its
    turn among the runs of this process and for a sandbox. `approval_ms` is the time in which the clock stopped while
    tool calls waited for approval, and is no part of `wall_ms`. `install_ms` is the time before all these in which the
    program's packages were resolved, approved and installed. If a program was stopped, `cpu_ms` lacks the time of
    processes that nobody waited for; if its session ended with it, both figures are those of the whole session.
    If a program reached its end, both may be its own process's report, which a hostile program can falsify; the weight
    of later runs in its lane (engine `linux`) depends on the kernel's figure. `docs/results.md` lists the cases.
    `sent_bytes` and `received_bytes` are those of its requests to the network, as `NetworkRequest` counts them.
    """

    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    tool_calls: int = 0
    queue_ms: float = 0.0
    approval_ms: float = 0.0
    install_ms: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0

    def to_dict(self) -> dict[str, float | int]:
        """Return the usage as plain JSON data."""
        return {
            "wall_ms": self.wall_ms,
            "cpu_ms": self.cpu_ms,
            "max_rss_bytes": self.max_rss_bytes,
            "tool_calls": self.tool_calls,
            "queue_ms": self.queue_ms,
            "approval_ms": self.approval_ms,
            "install_ms": self.install_ms,
            "sent_bytes": self.sent_bytes,
            "received_bytes": self.received_bytes,
        }


class ShownInNotebooks:
    """A base for classes whose objects notebooks display: results, messages and transcripts."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_().get("text/html")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return presentation.in_notebooks(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionResult(ShownInNotebooks):
    """The outcome of a run: output, value, files, error and usage.

    `exit_code` is 0 exactly if the run succeeded: the program's own code, 1 for an exception, 128+n for signal n, 124
    for a timeout, 125 if the sandbox failed or did not accept the program. `value` is the last expression's value if it
    can cross (JSON data and the types of the tagged form; a warning says why another one is `None`); `value_text` is
    its `repr`, `None` if there was no value. For a DataFrame `value_text` is the table as pandas prints it, without the
    middle of a large one: write a file for all of a table that is too large to cross. `value_forms` maps media types to
    the rich forms that a notebook would show (`text/html` as text, `image/png` as bytes). `changes` are the files in
    overlay mounts with `keep_changes` that differ from the host's; in a session, since it began. `sandbox` names the
    engine. `state_kept` says after a run in a session whether its variables still exist, and is `None` after any other.
    `code` is the program's source and `language` its language; both are `None` for a command, and for a program that
    did not begin.

    `label` is the join of what the program could have read, and so the label of all that the result has: output, value,
    error and files. The document of `to_dict` has it only above `public`.

    `environment` names the interpreter and packages that the program had, "" if the engine has no choice of them.
    `distributions` are these packages, looked up when they are first read; the document of `to_dict` has only those
    that the program asked for beyond its environment.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    value: Any = None
    value_text: str | None = None
    value_forms: Mapping[str, str | bytes] = field(default_factory=dict)
    error: ErrorInfo | None = None
    artifacts: tuple[Artifact, ...] = ()
    changes: tuple[FileChange, ...] = ()
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    sandbox: str = ""
    state_kept: bool | None = None
    code: str | None = field(default=None, repr=False)
    language: str | None = field(default=None, repr=False)
    label: Label = field(default=PUBLIC, repr=False)
    environment: str = field(default="", repr=False)
    distributions: Distributions = field(default=_NO_DISTRIBUTIONS, repr=False, compare=False)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ExecutionResult:
        """Return the result from which `to_dict` made this document.

        Missing fields get their defaults, and unknown ones are ignored. `value_forms` may contain bytes unencoded.
        Raises `ValueError` for an invalid field; the message names it.
        """
        return cls(**_fields_of(document))

    @property
    def success(self) -> bool:
        """True if the program ended by itself, without an error and with exit code 0."""
        return self.error is None and self.exit_code == 0

    def artifact(self, name: str) -> Artifact:
        """Return the artifact of that name; the `KeyError` for an unknown name lists the existing ones."""
        for artifact in self.artifacts:
            if artifact.name == name:
                return artifact
        raise KeyError(f"no artifact {name!r}; there are: {', '.join(a.name for a in self.artifacts) or 'none'}")

    def __str__(self) -> str:
        """Return the result as text for a person or a model: output, value, files and error, each below its heading."""
        return presentation.as_text(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return a pydantic schema (so FastAPI's too) that writes a result with `to_dict` and reads it with
        `from_dict`.
        """
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda given: given if isinstance(given, cls) else cls.from_dict(given),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Return the JSON schema of a result's document for OpenAPI."""
        types = {"stdout": "string", "stderr": "string", "exit_code": "integer", "success": "boolean"}
        fields: dict[str, Any] = {name: {"type": type} for name, type in types.items()}
        return {"title": cls.__name__, "type": "object", "properties": {**fields, "value": {}}}

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `actbox run --json` prints: strict JSON data, bytes as base64.

        `value` is in the tagged form: NaN is `{"!float": "nan"}`.
        """
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "success": self.success,
            "value": pack(self.value),
            "value_text": self.value_text,
            "value_forms": {
                media_type: base64.b64encode(form).decode("ascii") if isinstance(form, bytes) else form
                for media_type, form in self.value_forms.items()
            },
            "error": self.error.to_dict() if self.error else None,
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "changes": [change.to_dict() for change in self.changes],
            "warnings": list(self.warnings),
            "usage": self.usage.to_dict(),
            "sandbox": self.sandbox,
            "state_kept": self.state_kept,
            "code": self.code,
            "language": self.language,
            "environment": self.environment,
            "distributions": [one.to_dict() for one in self.distributions.asked],
            **_label_field(self.label),
        }


def _label_field(label: Label) -> dict[str, str]:
    return {} if label == PUBLIC else {"label": str(label)}


# Reading the document back


def _fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in document:
            try:
                fields[name] = read(document[name])
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                raise ValueError(f"the result's {name} is invalid: {type(error).__name__}: {error}") from error
    return fields


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a whole number, not {type(value).__name__}")
    return value


def _value(value: Any) -> Any:
    import copy

    return unpack(copy.deepcopy(value))


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _forms(value: Mapping[str, Any]) -> dict[str, str | bytes]:
    return {media_type: _form(media_type, form) for media_type, form in value.items()}


def _form(media_type: str, form: Any) -> str | bytes:
    # `to_dict` writes bytes as base64 and text unchanged; forms of these media types are bytes in a notebook.
    if isinstance(form, bytes):
        return form
    is_bytes = media_type.startswith(("image/", "audio/", "video/")) and media_type != "image/svg+xml"
    return _bytes(form) if is_bytes or media_type == "application/pdf" else _text(form)


def _error(value: Mapping[str, Any] | None) -> ErrorInfo | None:
    if value is None:
        return None
    line = value.get("line")
    texts = {name: _text(value.get(name, "")) for name in ("type", "message", "traceback", "hint", "limit")}
    return ErrorInfo(kind=ErrorKind(value["kind"]), line=None if line is None else _integer(line), **texts)


def _artifacts(value: Any) -> tuple[Artifact, ...]:
    return tuple(
        Artifact(
            _text(item["name"]),
            _bytes(item["data"]),
            _text(item["media_type"]),
            _label(item.get("label", "public")),
            None if item.get("claimed") is None else _label(item["claimed"]),
        )
        for item in value
    )


def _label(value: Any) -> Label:
    return Label.parse(_text(value))


def _changes(value: Any) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(
            mount=_text(item["mount"]),
            path=_text(item["path"]),
            kind=item["kind"],
            data=None if item.get("data") is None else _bytes(item["data"]),
            executable=bool(item.get("executable")),
        )
        for item in value
    )


def _distributions(value: Any) -> Distributions:
    return Distributions(
        Distribution(_text(item["name"]), _text(item["version"]), _text(item["sha256"]), TrustLevel(item["trust"]))
        for item in value
    )


def _usage(value: Mapping[str, Any]) -> Usage:
    return Usage(**{name: value[name] for name in Usage.__dataclass_fields__ if name in value})


_READERS: dict[str, Callable[[Any], Any]] = {
    "stdout": _text,
    "stderr": _text,
    "exit_code": _integer,
    "value": _value,
    "value_text": _text_or_none,
    "value_forms": _forms,
    "error": _error,
    "artifacts": _artifacts,
    "changes": _changes,
    "warnings": lambda value: tuple(_text(item) for item in value),
    "usage": _usage,
    "sandbox": _text,
    "state_kept": lambda value: None if value is None else bool(value),
    "code": _text_or_none,
    "language": _text_or_none,
    "label": _label,
    "environment": _text,
    "distributions": _distributions,
}
