"""What a CodeAct configuration is given once and keeps: limits, caps, and how its runs are treated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from actbox.content.render import LEAST_CHARS, MAX_CHARS
from actbox.core.errors import InvalidValue
from actbox.core.limits import Limits
from actbox.core.policy import Policy
from actbox.core.secrets import Secret

from .approval import ApprovalStyle

if TYPE_CHECKING:
    from .static_check import Checker

SEARCH_ABOVE = 50
"""With more tools than this a description lists names alone, and programs search."""


Language = Literal["python", "javascript"]
"""What programs are written in, as far as it matters for what a model is told of tools."""


class CodeActOptions(TypedDict, total=False):
    """The keyword arguments of a configuration that are no tools, mounts, domains or modes; see `CodeActSettings`."""

    limits: Limits
    preload: Sequence[str]
    secrets: Sequence[Secret]
    variables: Mapping[str, str]
    about: str
    language: Language
    approval_style: ApprovalStyle
    only_named_tools: bool
    file_surface: bool | None
    clear_output: bool
    max_chars: int
    max_output_files: int
    max_output_file_bytes: int
    max_output_total_bytes: int
    search_above: int | None
    static_check: Checker | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActSettings:
    """How the runs of one configuration are treated.

    Raises `InvalidValue` for what makes no sense, and `Unsupported` for a type checker that is not installed.

    * `limits`, `preload`, `secrets`, `variables`: as in `Policy`.
    * `about`: what programs are written in and with, as a sentence for the model. `language` says how tools are shown:
      as stubs of Python, or as the TypeScript declarations of async functions. What reads programs before they run (the
      style `inspected`, `static_check`) reads Python alone, and only there are many tools searched.
    * `approval_style`: when somebody is asked about tools that require approval. With `only_named_tools`, which goes
      with the style `inspected`, a program has only those tools that it names literally.
    * `file_surface`: whether programs are offered files, `/input` and `/output`; `None` where a workspace root or a
      mount says so. Without it each program has a throwaway folder, and only figures that it shows come back.
    * `clear_output`: whether `/output` is emptied before each call; else its files stay.
    * `max_chars`: characters of text that a model gets of one call; at least 2,000.
    * `max_output_files`, `max_output_file_bytes`, `max_output_total_bytes`: of the files that come back from one call.
    * `search_above`: with more tools than this the description lists names, and programs have `search_tools` and
      `describe_tool`; `None` for never.
    * `static_check`: the type checker by which each program is checked against its tools before it runs; it has to be
      installed (extra `actbox[typecheck]` for `ty`).
    """

    limits: Limits = field(default_factory=Limits)
    preload: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    about: str = "The program is Python: full CPython with the packages that are installed."
    language: Language = "python"
    approval_style: ApprovalStyle = "bundled"
    only_named_tools: bool = False
    file_surface: bool | None = None
    clear_output: bool = False
    max_chars: int = MAX_CHARS
    max_output_files: int = 20
    max_output_file_bytes: int = 5 * 2**20
    max_output_total_bytes: int = 20 * 2**20
    search_above: int | None = SEARCH_ABOVE
    static_check: Checker | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CodeActSettings:
        """Return the settings of some keyword arguments. Raises `TypeError` for one that there is not."""
        known = [spec.name for spec in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"there is no argument {name!r}; there are: {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        # Whether a secret can go anywhere is known when the domains are, at each run.
        checked = Policy(limits=self.limits, variables=self.variables, preload=self.preload)
        object.__setattr__(self, "variables", checked.variables)
        object.__setattr__(self, "preload", checked.preload)
        object.__setattr__(self, "secrets", tuple(self.secrets))
        # The JSON shape has half of it for errors and warnings.
        _check_count("max_chars", self.max_chars, least=2 * LEAST_CHARS)
        for name in ("max_output_files", "max_output_file_bytes", "max_output_total_bytes"):
            _check_count(name, getattr(self, name), least=1)
        if self.search_above is not None:
            _check_count("search_above", self.search_above, least=0)
        for name in ("only_named_tools", "clear_output"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidValue(f"{name} is True or False, not {getattr(self, name)!r}")
        if self.file_surface not in (None, True, False):
            raise InvalidValue(f"file_surface is True, False or None, not {self.file_surface!r}")
        if self.static_check is not None:
            from .static_check import check_available  # what it costs is for those who check

            check_available(self.static_check)
        if self.language not in get_args(Language):
            raise InvalidValue(f"language is 'python' or 'javascript', not {self.language!r}")
        if self.language != "python" and (self.approval_style == "inspected" or self.static_check is not None):
            raise InvalidValue(
                "approval_style='inspected' and static_check read programs in Python; programs in JavaScript are asked"
                " about as wholes ('bundled') or call by call ('nested')"
            )
        if self.only_named_tools and self.approval_style != "inspected":
            raise InvalidValue("only_named_tools goes with approval_style='inspected', by which programs are read")


def _check_count(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidValue(f"{name} must be a whole number of at least {least}, not {value!r}")
