"""`Profiles`: the models that write code, as the section `[coding_agents]` of `agent_config.toml` names them.

```toml
[coding_agents]
default = "openrouter:deepseek-coder"       # a profile, else a model

[coding_agents.python]                      # any language may have a section
model = "anthropic:claude-sonnet-4-6"
max_tokens = 4096

[[coding_agents.profiles]]
name = "deepseek-coder"
provider = "openrouter"
model = "deepseek/deepseek-coder-v2-instruct"
api_key_env = "OPENROUTER_API_KEY"          # default: the provider's own variable
system_prompt = "Write clean code."
base_url = "http://127.0.0.1:8000/v1"       # default: the provider's own address
max_tokens = 8192
temperature = 0.2
input_usd = 0.14                            # US dollars for a million tokens
output_usd = 0.28
```

A provider is `openai`, `openrouter`, `anthropic`, `gemini`, `local` (any server that is compatible with OpenAI), or
another one of Pydantic AI. At a `base_url`, `openai`, `openrouter` and `local` are asked by Chat Completions; write
`openai-responses` for a server of Responses. No key is sent there but that of `api_key_env`, so that a key of OpenAI's
reaches no other server by accident.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Final, Self

from actbox.capabilities.prices import TokenPrice
from actbox.codeact.model import UserMessage
from actbox.codeact.named_model import ConnectedModel, named_model
from actbox.config.contents import check_keys, list_of, mapping_of, placed, text_of, unknown_name
from actbox.config.documents import read_document
from actbox.core.errors import ActboxError, InvalidValue

from .response import language_called

_SECTION: Final = "coding_agents"
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)
_SPELLINGS: Final = {"gemini": "google", "local": "openai-chat", "openai-compatible": "openai-chat"}
"""The providers that Pydantic AI calls by another name."""
_CHAT_COMPLETIONS: Final = ("openai", "openrouter")
"""The further providers that are asked by Chat Completions at another address than their own."""
_NO_KEY: Final = "no-key"
"""The key for servers that need none: the clients of providers refuse to have none."""
_PING: Final = "Answer with the word OK and nothing else."
_PING_TOKENS: Final = 16
"""The least limit that OpenAI's Responses accepts."""
_PING_SECONDS: Final = 30
_EXAMPLES: Final = {"name": "deepseek-coder", "provider": "openrouter", "model": "deepseek/deepseek-coder-v2-instruct"}


@dataclass(frozen=True, slots=True)
class Profile:
    """A model that writes code, and how it is asked.

    `api_key_env` is the environment variable with its key. `max_tokens` bounds an answer. `input_usd` and `output_usd`
    are US dollars for a million tokens. Raises `InvalidValue` for a field that is none.
    """

    name: str
    provider: str
    model: str
    api_key_env: str = ""
    system_prompt: str = ""
    base_url: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    input_usd: Decimal | None = None
    output_usd: Decimal | None = None

    def __post_init__(self) -> None:
        for key in ("name", "provider", "model", "api_key_env", "system_prompt", "base_url"):
            value = getattr(self, key)
            if not isinstance(value, str) or (key in _EXAMPLES and not value.strip()):
                example = f", such as {_EXAMPLES[key]!r}" if key in _EXAMPLES else ""
                raise InvalidValue(f"{key} is text{example}")
        if self.api_key_env and not _VARIABLE.fullmatch(self.api_key_env):
            # The value may be the key itself, so it is not shown.
            raise InvalidValue("api_key_env is the name of a variable in capitals, such as 'OPENROUTER_API_KEY'")
        _check_limits(self.max_tokens, self.temperature)
        if (self.input_usd is None) != (self.output_usd is None):
            raise InvalidValue("input_usd and output_usd are given both, or neither")
        if self.input_usd is not None and self.output_usd is not None:
            with placed("input_usd and output_usd"):
                price = TokenPrice(input=self.input_usd, output=self.output_usd)
            object.__setattr__(self, "input_usd", price.input)
            object.__setattr__(self, "output_usd", price.output)

    @classmethod
    def of_model(cls, id: str) -> Self:
        """Return the profile of a model that is named `PROVIDER:MODEL`; its name is the id."""
        provider, _, model = id.partition(":")
        return cls(name=id, provider=provider, model=model)

    @property
    def model_name(self) -> str:
        """The name of the chat model, under which its tokens are charged: `PROVIDER:MODEL` as `CodeAgent` takes it."""
        provider = self.provider.strip().lower()
        if self.base_url and provider in _CHAT_COMPLETIONS:
            provider = "openai-chat"
        return f"{_SPELLINGS.get(provider, provider)}:{self.model}"

    @property
    def price(self) -> TokenPrice | None:
        """The price of the model, or `None` if the profile has none."""
        if self.input_usd is None or self.output_usd is None:
            return None
        return TokenPrice(input=self.input_usd, output=self.output_usd)

    def connect(self) -> ConnectedModel:
        """Return the chat model. No request is sent.

        Raises `ActboxError`, which names the profile, if a key, an address or a package is missing or invalid.
        """
        settings = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        try:
            return named_model(
                self.model_name,
                base_url=self._address(),
                api_key=self._key(),
                system_prompt=self.system_prompt,
                **{name: value for name, value in settings.items() if value is not None},
            )
        except ActboxError as error:
            kind = InvalidValue if isinstance(error, InvalidValue) else ActboxError
            text = str(error)
            raise kind(text if text.startswith(self._about) else f"{self._about}: {text}") from error.__cause__

    @property
    def _about(self) -> str:
        is_of_model = self.name == f"{self.provider}:{self.model}"
        return f"the {'model' if is_of_model else 'profile'} {self.name!r}"

    def _address(self) -> str | None:
        provider = self.provider.strip().lower()
        if not self.base_url and _SPELLINGS.get(provider) == "openai-chat":
            raise InvalidValue(
                f"the provider {self.provider!r} needs the address of its server: give base_url, such as "
                "'http://127.0.0.1:8000/v1'"
            )
        if not self.base_url and provider == "openrouter" and "/" not in self.model:
            raise InvalidValue(
                f"OpenRouter names a model AUTHOR/MODEL, such as {_EXAMPLES['model']!r}, not {self.model!r}"
            )
        return self.base_url or None

    def _key(self) -> str | None:
        if not self.api_key_env:
            return _NO_KEY if self.base_url else None
        if key := os.environ.get(self.api_key_env, "").strip():
            return key
        raise ActboxError(f"{self._about} needs an API key: set the environment variable {self.api_key_env}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSection:
    """The model for one language, or limits for it. An empty `model` is the default."""

    model: str = ""
    max_tokens: int | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        _check_limits(self.max_tokens, self.temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCheck:
    """The check of one profile: whether it would work, else the reason why it does not.

    `used_for` has `default` and the languages for which the profile is selected; it is empty for a profile that only a
    `profile` parameter selects.
    """

    profile: Profile
    used_for: tuple[str, ...] = ()
    works: bool
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain JSON data."""
        return {
            "profile": self.profile.name,
            "model": self.profile.model_name,
            "used_for": list(self.used_for),
            "works": self.works,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Profiles:
    """The profiles of coding agents, and which of them is for what.

    `default` and the model of a language are the name of a profile, or `PROVIDER:NAME`: the profile of that provider
    and name, else the model. Raises `InvalidValue` for a name that is neither, or that two profiles have.
    """

    profiles: tuple[Profile, ...] = ()
    default: str = ""
    languages: Mapping[str, LanguageSection] = field(default_factory=dict)

    def __post_init__(self) -> None:
        seen = set()
        for one in self.profiles:
            if (key := (one.provider, one.name)) in seen:
                raise InvalidValue(f"two profiles of {one.provider!r} have the name {one.name!r}; rename or remove one")
            seen.add(key)
        named = {"default": self.default, **{name: section.model for name, section in self.languages.items()}}
        for place, name in named.items():
            if name:
                with placed(place):
                    self._named(name)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the profiles of a TOML file. Its other sections belong to others and are ignored.

        Raises `InvalidValue`, which names the file and the place.
        """
        file, document = read_document(path)
        if _SECTION not in document:
            raise InvalidValue(f"{file} has no section [{_SECTION}], only {', '.join(list(document)[:5])}")
        where = f"{file}: {_SECTION}"
        given = document[_SECTION]
        if not isinstance(given, dict):
            raise InvalidValue(f"{where} is a section, [{_SECTION}]")
        listed = list_of(given.get("profiles", []), f"{where}.profiles")
        profiles = tuple(_profile(one, f"{where}, profile {number}") for number, one in enumerate(listed, 1))
        languages: dict[str, LanguageSection] = {}
        for key, value in given.items():
            if key in ("default", "profiles"):
                continue
            if not isinstance(value, dict):
                known = ("default", "profiles")
                raise InvalidValue(f"{where}: unknown key {unknown_name(key, known)}, and a language is a section")
            if (language := language_called(key)) in languages:
                raise InvalidValue(f"{where}: {key!r} is a second section for {language}; remove one")
            languages[language] = _language(value, f"{where}.{key}")
        default = text_of(given["default"], f"{where}.default") if "default" in given else ""
        with placed(where):
            return cls(profiles, default, languages)

    def select(self, profile: str | None = None, language: str | None = None) -> Profile:
        """Return the profile that is named, else the one for a language, else the default.

        A language's `max_tokens` and `temperature` are for its model, not for a profile that is named. Raises
        `InvalidValue` if there is none.
        """
        if profile:
            return self._named(profile)
        name = language_called(language or "")
        section = self.languages.get(name, LanguageSection())
        if not (asked := section.model or self.default):
            raise InvalidValue(
                f"no model is chosen{f' for {name}' if name else ''}: name a profile, or set default in [{_SECTION}]"
            )
        found = self._named(asked)
        if section.max_tokens is not None:
            found = replace(found, max_tokens=section.max_tokens)
        return found if section.temperature is None else replace(found, temperature=section.temperature)

    def checks(self) -> tuple[ProfileCheck, ...]:
        """Return whether each profile would work: those of the file, then the models that it names. Nothing is sent."""
        used: dict[Profile, list[str]] = {one: [] for one in self.profiles}
        places = {"default": self.default, **{name: one.model or self.default for name, one in self.languages.items()}}
        for place, name in places.items():
            if name:
                used.setdefault(self._named(name), []).append(place)
        return tuple(_check(one, used_for) for one, used_for in used.items())

    async def ping(self) -> tuple[ProfileCheck, ...]:
        """Return what `checks` does, after a short question to each model that would work; its answer costs tokens."""
        return tuple(await asyncio.gather(*map(_ping, self.checks())))

    def _named(self, name: str) -> Profile:
        whole = [one for one in self.profiles if f"{one.provider}:{one.name}" == name]
        found = whole or [one for one in self.profiles if one.name == name]
        if len(found) > 1:
            ids = " and ".join(repr(f"{one.provider}:{one.name}") for one in found)
            raise InvalidValue(f"two profiles have the name {name!r}; name {ids}")
        if found:
            return found[0]
        provider, _, model = name.partition(":")
        if provider and model:
            return Profile.of_model(name)
        known = [one.name for one in self.profiles]
        instead = f"unknown profile {unknown_name(name, known)}" if known else f"there is no profile {name!r}"
        raise InvalidValue(f"{instead}; a model is named PROVIDER:MODEL, such as 'openai:gpt-5'")


def _profile(value: object, where: str) -> Profile:
    given = mapping_of(value, [one.name for one in fields(Profile)], where)
    for key, example in _EXAMPLES.items():
        if key not in given:
            raise InvalidValue(f"{where} has no {key!r}, such as {example!r}")
    with placed(where):
        return Profile(**given)


def _language(value: Mapping[str, Any], where: str) -> LanguageSection:
    check_keys(value, [one.name for one in fields(LanguageSection)], where)
    with placed(where):
        if "model" in value:
            text_of(value["model"], "model")
        return LanguageSection(**value)


def _check_limits(max_tokens: object, temperature: object) -> None:
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise InvalidValue(f"max_tokens is a whole number from 1, not {max_tokens!r}")
    if temperature is None:
        return
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise InvalidValue(f"temperature is a number from 0 to 2, not {temperature!r}")


def _check(profile: Profile, used_for: Iterable[str]) -> ProfileCheck:
    try:
        profile.connect()
    except ActboxError as error:
        return ProfileCheck(profile=profile, used_for=tuple(used_for), works=False, reason=str(error))
    return ProfileCheck(profile=profile, used_for=tuple(used_for), works=True)


async def _ping(check: ProfileCheck) -> ProfileCheck:
    if not check.works:
        return check
    short = replace(check.profile, max_tokens=_PING_TOKENS, system_prompt="")
    try:
        async with asyncio.timeout(_PING_SECONDS), short.connect() as model:
            await model.complete([UserMessage(_PING)], [])
    except TimeoutError:
        return replace(check, works=False, reason=f"no answer within {_PING_SECONDS} s")
    except ActboxError as error:
        return replace(check, works=False, reason=str(error))
    return check
