"""Profiles of coding agents: the specification's file, the selection, and the real clients against loopback servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actbox import ActboxError, InvalidValue
from actbox.capabilities import TokenPrice
from actbox.cli.app import run_app
from actbox.codeact.model import ModelReply, SystemMessage, UserMessage
from actbox.codegen import Profile, Profiles
from actbox.codegen.profiles import LanguageSection
from tests.integrations.model_wires import (
    KEY,
    MODEL,
    ChatCompletions,
    GenerateContent,
    Messages,
    Reply,
    Request,
    Responses,
    Wire,
    serving,
)

SPECIFIED = Path(__file__).with_name("agent_config.toml")
"""The file of the specification's section 7.1, character by character."""

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")

DEEPSEEK = Profile(
    "deepseek-coder", "openrouter", "deepseek/deepseek-coder-v2-instruct", api_key_env="OPENROUTER_API_KEY"
)


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test an environment without a provider's key or address."""
    for name in (*VARIABLES, "GEMINI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clients() -> None:
    """Skip the test if the providers' clients are not installed."""
    pytest.importorskip("pydantic_ai", reason="the extra actbox[models] is not installed")


def written(folder: Path, content: str) -> Path:
    path = folder / "agent_config.toml"
    path.write_text(content)
    return path


# The file


def test_the_specifications_file_is_read_whole() -> None:
    found = Profiles.load(SPECIFIED)
    assert found.default == "openrouter:deepseek-coder"
    assert found.languages == {
        "python": LanguageSection(model="openrouter:deepseek-coder-v2", max_tokens=4096),
        "javascript": LanguageSection(model="openrouter:codellama-70b", max_tokens=4096),
        "rust": LanguageSection(model="openrouter:claude-3-sonnet", max_tokens=8192),
    }
    deepseek, claude = found.profiles
    assert (deepseek.name, deepseek.provider, deepseek.model, deepseek.api_key_env) == (
        *("deepseek-coder", "openrouter", "deepseek/deepseek-coder-v2-instruct", "OPENROUTER_API_KEY"),
    )
    assert (claude.name, claude.provider, claude.model, claude.api_key_env) == (
        *("claude-coder", "anthropic", "claude-3-sonnet-20240229", "ANTHROPIC_API_KEY"),
    )
    assert "2. Type hints (Python) or TypeScript types (JS)\n" in deepseek.system_prompt
    assert claude.system_prompt.endswith("Always validate inputs and handle edge cases.\n")
    assert deepseek.max_tokens is deepseek.temperature is deepseek.price is None


def test_the_example_has_a_profile_for_a_server_of_ones_own() -> None:
    found = Profiles.load(Path(__file__).parents[2] / "examples" / "config" / "agent_config.toml")
    assert found.select("here").base_url == "http://127.0.0.1:11434/v1"
    assert (found.select().price, found.select().max_tokens) == (TokenPrice(input="0.14", output="0.28"), 4096)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[sandbox]\nenabled = true", "has no section [coding_agents], only sandbox"),
        ("coding_agents = 3", "coding_agents is a section, [coding_agents]"),
        ("[coding_agents]\ndefalt = 'openai:gpt-5'", "unknown key 'defalt'; the nearest known one is 'default'"),
        ("[coding_agents]\ndefault = 3", "coding_agents.default: expected text, not 3"),
        ("[coding_agents]\ndefault = 'fast'", "default: there is no profile 'fast'; a model is named PROVIDER:MODEL"),
        (
            "[coding_agents.go]\nmodle = 'a:b'",
            "coding_agents.go: unknown key 'modle'; the nearest known one is 'model'",
        ),
        ("[coding_agents.go]\nmodel = ''", "coding_agents.go: model: expected text, not ''"),
        ("[coding_agents.go]\nmax_tokens = 0", "coding_agents.go: max_tokens is a whole number from 1, not 0"),
        ("[coding_agents.js]\n[coding_agents.node]", "'node' is a second section for javascript; remove one"),
        ("[coding_agents.profiles]", "coding_agents.profiles is a list"),
        ("[[coding_agents.profiles]]\nname = 'a'", "profile 1 has no 'provider', such as 'openrouter'"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_that_names_its_place(
    content: str, sentence: str, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InvalidValue) as refused:
        Profiles.load(path)
    assert str(refused.value).startswith(str(path))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("name = ''", "profile 1: name is text, such as 'deepseek-coder'"),
        ("model = 3", "profile 1: model is text, such as "),
        ("api_key = 'sk-12345'", "unknown key 'api_key'; the nearest known one is 'api_key_env'"),
        ("api_key_env = 'sk-12345'", "api_key_env is the name of a variable in capitals, such as 'OPENROUTER_API_KEY'"),
        ("temperature = 3", "temperature is a number from 0 to 2, not 3"),
        ("temperature = nan", "temperature is a number from 0 to 2, not nan"),
        ("max_tokens = true", "max_tokens is a whole number from 1, not True"),
        ("input_usd = 1", "input_usd and output_usd are given both, or neither"),
        ("input_usd = -1\noutput_usd = 1", "input_usd and output_usd: "),
    ],
)
def test_a_mistake_in_a_profile_is_one_sentence_and_never_shows_a_key(line: str, sentence: str, tmp_path: Path) -> None:
    fields = {"name": "a", "provider": "openai", "model": "b"}
    fields.pop(line.partition(" ")[0], None)
    lines = "\n".join([*(f"{key} = '{value}'" for key, value in fields.items()), line])
    with pytest.raises(InvalidValue) as refused:
        Profiles.load(written(tmp_path, f"[[coding_agents.profiles]]\n{lines}"))
    assert sentence in str(refused.value)
    assert "sk-12345" not in str(refused.value)


def test_two_profiles_of_one_name_are_told_apart_by_their_provider() -> None:
    other = Profile("deepseek-coder", "local", "deepseek-coder:6.7b", base_url="http://127.0.0.1:11434/v1")
    both = Profiles((DEEPSEEK, other), default="local:deepseek-coder")
    assert both.select() is not DEEPSEEK
    assert both.select("openrouter:deepseek-coder") == DEEPSEEK
    with pytest.raises(InvalidValue, match=r"name 'openrouter:deepseek-coder' and 'local:deepseek-coder'$"):
        both.select("deepseek-coder")
    with pytest.raises(InvalidValue, match="two profiles of 'openrouter' have the name 'deepseek-coder'"):
        Profiles((DEEPSEEK, DEEPSEEK))


# The selection


def test_a_profile_is_chosen_by_parameter_then_by_language_then_by_default() -> None:
    found = Profiles.load(SPECIFIED)
    assert found.select("claude-coder", "python").model == "claude-3-sonnet-20240229"
    assert found.select(language="python").model == "deepseek-coder-v2"
    assert found.select(language="Rust").max_tokens == 8192
    assert found.select(language="JS").model == "codellama-70b"
    assert found.select(language="go").name == found.select().name == "deepseek-coder"
    with pytest.raises(InvalidValue, match=r"^no model is chosen for go: name a profile, or set default in "):
        Profiles().select(language="go")


def test_a_provider_and_a_name_are_first_a_profile_and_else_a_model() -> None:
    found = Profiles.load(SPECIFIED)
    assert found.select("openrouter:deepseek-coder") == found.profiles[0]
    model = found.select("openrouter:deepseek/deepseek-coder")
    assert (model.provider, model.model, model.system_prompt) == ("openrouter", "deepseek/deepseek-coder", "")
    assert found.select("openai:gpt-5").model_name == "openai:gpt-5"
    with pytest.raises(InvalidValue, match=r"unknown profile 'claude-codr'; the nearest known one is 'claude-coder'"):
        found.select("claude-codr")


def test_the_limits_of_a_language_are_for_its_model_or_the_default(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "[coding_agents]\ndefault = 'small'\n[coding_agents.go]\nmax_tokens = 9\ntemperature = 0.5\n"
        "[[coding_agents.profiles]]\nname = 'small'\nprovider = 'openai'\nmodel = 'gpt-5'\nmax_tokens = 5\n",
    )
    found = Profiles.load(path)
    assert (found.select(language="go").max_tokens, found.select(language="go").temperature) == (9, 0.5)
    assert (found.select("small", "go").max_tokens, found.select().max_tokens) == (5, 5)


def test_a_price_is_by_the_name_under_which_tokens_are_charged(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "[[coding_agents.profiles]]\nname = 'here'\nprovider = 'openrouter'\nmodel = 'a/b'\n"
        "base_url = 'http://127.0.0.1/v1'\ninput_usd = 0.1\noutput_usd = 2\n",
    )
    (found,) = Profiles.load(path).profiles
    assert (found.model_name, found.price) == ("openai-chat:a/b", TokenPrice(input="0.1", output=2))


# Keys and addresses


def test_a_missing_key_names_the_profile_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", " ")
    with pytest.raises(ActboxError) as missing:
        DEEPSEEK.connect()
    assert str(missing.value) == (
        "the profile 'deepseek-coder' needs an API key: set the environment variable OPENROUTER_API_KEY"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        (
            Profile("fast", "gemini", "gemini-3.5-flash"),
            "the profile 'fast': the model 'google:gemini-3.5-flash' needs an API key: set the environment variable "
            "GOOGLE_API_KEY",
        ),
        (
            Profile.of_model("anthropic:claude-sonnet-4-6"),
            "the model 'anthropic:claude-sonnet-4-6' needs an API key: set the environment variable ANTHROPIC_API_KEY",
        ),
    ],
    ids=["profile", "model"],
)
def test_the_providers_own_variable_is_named_if_the_profile_names_none(
    profile: Profile, sentence: str, clients: None
) -> None:
    with pytest.raises(ActboxError) as missing:
        profile.connect()
    assert str(missing.value) == sentence


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        (Profile("here", "local", "qwen3"), "the profile 'here': the provider 'local' needs the address of its server"),
        (Profile.of_model("openrouter:deepseek-coder-v2"), "OpenRouter names a model AUTHOR/MODEL, such as "),
    ],
)
def test_a_model_that_cannot_be_there_is_refused_before_a_request(profile: Profile, sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence):
        profile.connect()


@pytest.mark.slow
def test_a_provider_or_an_address_that_is_none_is_refused(clients: None) -> None:
    with pytest.raises(InvalidValue, match=r"^the profile 'x': there is no model provider 'nobody'"):
        Profile("x", "nobody", "m").connect()
    with pytest.raises(InvalidValue, match=r"^the profile 'x': base_url must be a URL such as"):
        Profile("x", "local", "m", base_url="localhost:8000").connect()


# The providers' clients

SERVED: tuple[tuple[str, Wire], ...] = (
    ("openai-responses", Responses()),
    ("openai", ChatCompletions()),
    ("openrouter", ChatCompletions()),
    ("openai-compatible", ChatCompletions()),
    ("anthropic", Messages()),
    ("gemini", GenerateContent()),
)


def limits(wire: Wire, body: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the most tokens of an answer and the temperature in a request."""
    names = {Responses: "max_output_tokens", GenerateContent: "maxOutputTokens"}
    given = body["generationConfig"] if isinstance(wire, GenerateContent) else body
    return given[names.get(type(wire), "max_tokens")], given["temperature"]


async def answer_of(profile: Profile) -> ModelReply:
    async with profile.connect() as model:
        return await model.complete([SystemMessage("Instructions."), UserMessage("The capital?")], [])


@pytest.mark.slow
@pytest.mark.parametrize(("provider", "wire"), SERVED, ids=[provider for provider, _ in SERVED])
async def test_a_profile_is_sent_over_each_wire(
    provider: str, wire: Wire, monkeypatch: pytest.MonkeyPatch, clients: None
) -> None:
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    with serving(wire, [Reply("Oslo.")]) as server:
        profile = Profile(
            *("mine", provider, MODEL),
            api_key_env="MY_KEY",
            system_prompt="Write clean code.\n",
            base_url=server.base_url,
            max_tokens=777,
            temperature=0.25,
        )
        reply = await answer_of(profile)
        await server.wait_until_no_connection_is_open()
    assert (reply.text, reply.usage.input_tokens) == ("Oslo.", 7)
    (request,) = server.requests
    assert request.path == wire.path
    assert wire.system(request.body) == "Write clean code.\n\nInstructions."
    assert limits(wire, request.body) == (777, 0.25)
    assert "max_completion_tokens" not in request.body


class OpenRouter(ChatCompletions):
    """OpenRouter's Chat Completions, which say who has answered."""

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        answered = super().answer(reply, number)
        answered["choices"][0]["native_finish_reason"] = "stop"
        return {**answered, "provider": "DeepInfra"}


@pytest.mark.slow
async def test_openrouter_is_asked_by_its_own_client(monkeypatch: pytest.MonkeyPatch, clients: None) -> None:
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    profile = Profiles.load(SPECIFIED).select()
    with serving(OpenRouter(), [Reply("Oslo.")]) as server:
        monkeypatch.setattr(OpenRouterProvider, "base_url", server.base_url)
        assert (await answer_of(profile)).text == "Oslo."
    (request,) = server.requests
    assert request.body["model"] == "deepseek/deepseek-coder-v2-instruct"
    assert ChatCompletions().system(request.body).startswith("You are a code generation assistant.")


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["local", "openai"])
async def test_a_key_of_openais_is_not_sent_to_another_server(
    provider: str, monkeypatch: pytest.MonkeyPatch, clients: None
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-openai")
    with serving(ChatCompletions(key=None), [Reply("Oslo.")]) as server:
        assert (await answer_of(Profile("here", provider, MODEL, base_url=server.base_url))).text == "Oslo."
    assert "secret-of-openai" not in str(server.requests[0].headers)


# The check

REFUSING = Messages(key="another-key")


class WebPage(ChatCompletions):
    """A server that answers with something else than the API does."""

    def answer(self, reply: Reply, number: int) -> dict[str, Any]:
        return {"page": "<html>"}


@pytest.mark.slow
def test_the_check_of_the_specifications_file_says_what_would_work(
    monkeypatch: pytest.MonkeyPatch, clients: None
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    found = {one.profile.name: one for one in Profiles.load(SPECIFIED).checks()}
    assert {name: (one.works, one.used_for) for name, one in found.items()} == {
        "deepseek-coder": (True, ("default",)),
        "claude-coder": (False, ()),
        "openrouter:deepseek-coder-v2": (False, ("python",)),
        "openrouter:codellama-70b": (False, ("javascript",)),
        "openrouter:claude-3-sonnet": (False, ("rust",)),
    }
    assert found["claude-coder"].reason.endswith("set the environment variable ANTHROPIC_API_KEY")
    assert "AUTHOR/MODEL" in found["openrouter:deepseek-coder-v2"].reason


@pytest.mark.slow
async def test_only_a_ping_asks_the_models(monkeypatch: pytest.MonkeyPatch, clients: None) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with (
        serving(ChatCompletions(), [Reply("OK")]) as good,
        serving(REFUSING, []) as refusing,
        serving(WebPage(), [Reply("OK")]) as page,
    ):
        made = Profiles(
            (
                Profile("good", "local", MODEL, api_key_env="MY_KEY", base_url=good.base_url, system_prompt="Long."),
                Profile("refused", "anthropic", MODEL, api_key_env="MY_KEY", base_url=refusing.base_url),
                Profile("page", "local", MODEL, api_key_env="MY_KEY", base_url=page.base_url),
                Profile("no-key", "anthropic", MODEL, api_key_env="NO_SUCH_KEY"),
            )
        )
        assert [one.works for one in made.checks()] == [True, True, True, False]
        asked: list[Request] = [*good.requests, *refusing.requests, *page.requests]
        assert asked == []
        pinged = {one.profile.name: one for one in await made.ping()}
    assert {name: one.works for name, one in pinged.items()} == {
        **{"good": True, "refused": False, "page": False, "no-key": False}
    }
    assert "the key is wrong" in pinged["refused"].reason
    assert good.requests[0].body["max_tokens"] == 16


@pytest.mark.slow
def test_the_command_prints_each_profile_and_fails_if_the_default_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], clients: None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", KEY)
    (tmp_path / "config").mkdir()
    with serving(ChatCompletions(), [Reply("OK")]) as server:
        written(
            tmp_path / "config",
            "[coding_agents]\ndefault = 'good'\n[[coding_agents.profiles]]\nname = 'good'\nprovider = 'local'\n"
            f"model = 'qwen3'\napi_key_env = 'MY_KEY'\nbase_url = '{server.base_url}'\n"
            "[[coding_agents.profiles]]\nname = \"other\\u001b[2J\"\nprovider = 'anthropic'\n"
            "model = 'm'\napi_key_env = 'NO_SUCH_KEY'\n",
        )
        assert run_app(["profiles", "check"]) == 0
        assert server.requests == []
        assert run_app(["profiles", "check", "--ping", "--format", "json"]) == 0
    shown = capfd.readouterr().out
    lines, document = shown.splitlines()[:2], json.loads(shown[shown.index("[\n") :])
    assert lines[0] == "good (openai-chat:qwen3), for default: would work"
    assert lines[1].startswith("other\\x1b[2J (anthropic:m): does not work: the profile ")
    assert lines[1].endswith("set the environment variable NO_SUCH_KEY")
    assert [(one["profile"], one["works"]) for one in document] == [("good", True), ("other\x1b[2J", False)]
    monkeypatch.delenv("MY_KEY")
    assert run_app(["profiles", "check"]) == 1


def test_the_command_names_the_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_app(["profiles", "check"]) == 2
    assert "there is neither agent_config.toml nor config/agent_config.toml here" in capfd.readouterr().err


def test_a_file_that_nobody_named_sends_no_key_to_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_SECRET", "s")
    (tmp_path / "agent_config.toml").write_text(
        "[coding_agents]\ndefault = 'good'\n[[coding_agents.profiles]]\nname = 'good'\nprovider = 'local'\n"
        "model = 'qwen3'\napi_key_env = 'MY_SECRET'\nbase_url = 'https://collector.example/v1'\n"
    )
    assert run_app(["profiles", "check"]) == run_app(["solve", "one", "--sandbox", "linux"]) == 2
    assert capfd.readouterr().err.count("sends the value of MY_SECRET to collector.example") == 2
    assert run_app(["profiles", "check", "--config", "agent_config.toml"]) == 0
