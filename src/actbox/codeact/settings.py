"""The fixed settings of a CodeAct configuration: limits, caps, and how its runs are treated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from actbox.content.render import LEAST_CHARS, MAX_CHARS
from actbox.core.errors import InvalidValue
from actbox.core.limits import Limits
from actbox.core.packages import HOST, Environment, PackagePolicy
from actbox.core.policy import Policy
from actbox.core.secrets import Secret

from .approvals import ApprovalStyle
from .review_decision import checked_rules

if TYPE_CHECKING:
    from actbox.review import Rules  # imported only for a review, since the import takes long

SEARCH_ABOVE = 50
"""The number of tools above which a description lists only names, and programs search."""


Language = Literal["python", "javascript"]
"""The language of the programs, as far as it affects the model's description of tools."""


class CodeActOptions(TypedDict, total=False):
    """The keyword arguments of a configuration other than tools, mounts, domains and modes; see `CodeActSettings`."""

    limits: Limits
    preload: Sequence[str]
    secrets: Sequence[Secret]
    variables: Mapping[str, str]
    environment: str | Environment
    packages: PackagePolicy | None
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
    static_check: Literal["ty"] | None
    review: Rules | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeActSettings:
    """The settings of one configuration, which apply to all of its runs.

    Raises `InvalidValue` for an invalid setting, and `Unsupported` for a type checker that is not installed.

    * `limits`, `preload`, `secrets`, `variables`, `environment`, `packages`: as in `Policy`. With `packages` the
      model's tool also takes `dependencies`.
    * `about`: the language and packages of programs, as a sentence for the model. `language` selects how tools are
      shown: as Python stubs, or as TypeScript declarations of async functions. The style `inspected` and `static_check`
      support only Python, and so does the search of many tools.
    * `approval_style`: when a person is asked about tools that require approval. With `only_named_tools`, for the style
      `inspected`, a program has only the tools that it names literally.
    * `file_surface`: whether programs have files, `/input` and `/output`; `None` means only with a workspace root or a
      mount. Without it each program has a temporary directory, and only displayed objects come back: figures, and
      objects passed to `display`.
    * `clear_output`: whether `/output` is emptied before each call; otherwise its files stay.
    * `max_chars`: the most characters of text about one call for the model; at least 2,000.
    * `max_output_files`, `max_output_file_bytes`, `max_output_total_bytes`: the limits of the returned files of a call.
    * `search_above`: with more tools than this the description lists names, and programs have `search_tools` and
      `describe_tool`; `None` means never.
    * `static_check`: the type checker that checks each program against its tools before it runs: `ty`, which must be
      installed (extra `actbox[typecheck]`).
    * `review`: the rules by which each program is reviewed before it runs (`actbox.review`), such as
      `Rules.preset("spec")`. A blocked program does not run, and the model reads which lines meet which rules. Rules
      that ask require approval of the program; warnings go into the result. Programs in JavaScript are read with the
      extra `actbox[review]`. This is advice on top of isolation, never instead of it.
    """

    limits: Limits = field(default_factory=Limits)
    preload: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: str | Environment = HOST
    packages: PackagePolicy | None = None
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
    static_check: Literal["ty"] | None = None
    review: Rules | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CodeActSettings:
        """Return the settings from keyword arguments. Raises `TypeError` for an unknown one."""
        known = [spec.name for spec in fields(cls)]
        for name in options:
            if name not in known:
                raise TypeError(f"there is no argument {name!r}; there are: {', '.join(known)}")
        return cls(**options)

    def __post_init__(self) -> None:
        # Whether a secret has an allowed place is known only at each run, with its domains.
        checked = Policy(
            limits=self.limits,
            variables=self.variables,
            preload=self.preload,
            environment=self.environment,
            packages=self.packages,
        )
        object.__setattr__(self, "variables", checked.variables)
        object.__setattr__(self, "preload", checked.preload)
        object.__setattr__(self, "secrets", tuple(self.secrets))
        # The JSON shape spends half of it on errors and warnings.
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
            from .static_check import check_available  # imported only for the check, since the import takes long

            if self.static_check != "ty":
                raise InvalidValue(f"static_check is 'ty' or None, not {self.static_check!r}")
            check_available()
        if self.language not in get_args(Language):
            raise InvalidValue(f"language is 'python' or 'javascript', not {self.language!r}")
        if self.review is not None:
            object.__setattr__(self, "review", checked_rules(self.review, self.language))
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
