"""Configuration files become environments, a package policy and an engine, or one sentence that names the mistake."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

import pytest

from actbox.config import Config
from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.packages import Environment, PackagePolicy, PackageRule, PackageRules
from actbox.sandbox.engines.container import open_engine

EXAMPLES = Path(__file__).parents[2] / "examples" / "config"
AS_SPECIFIED = """
[coding_agents]
default = "openrouter:deepseek-coder"

[sandbox]
enabled = true
runtime = "bubblewrap"
package_cache_dir = "/tmp/ccos-sandbox-cache"
enable_package_cache = true

[sandbox.package_allowlist]
auto_approved = ["pandas", "numpy", "matplotlib", "requests"]
requires_approval = ["torch", "tensorflow", "langchain"]
blocked = ["subprocess32", "pyautogui"]

[[sandbox.images]]
name = "python-data-science"
base = "python:3.12-slim"
packages = ["pandas>=2.0", "numpy>=1.26", "matplotlib>=3.8"]
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(*paths: object) -> str:
    with pytest.raises(InvalidValue) as refused:
        Config.load(*paths)  # type: ignore[arg-type]
    sentence = str(refused.value)
    assert "\n" not in sentence and len(sentence) < 500
    return sentence


# What files stand for


def test_the_examples_are_one_configuration() -> None:
    config = Config.load(*sorted(EXAMPLES.iterdir()))
    assert (config.enabled, config.engine, config.engine_options) == (True, "linux", {})
    assert [environment.name for environment in config.environments] == [
        *("python-spreadsheets", "python-data-science", "python-web", "nodejs-tools")
    ]
    assert config.environments[1] == Environment(
        name="python-data-science",
        packages=("pandas>=2.0", "numpy>=1.24", "matplotlib>=3.7", "seaborn>=0.12", "scipy>=1.10", "scikit-learn>=1.3"),
        python="3.12",
        image="python:3.12-slim",
        warm_pool_size=2,
    )
    assert config.environments[3] == Environment(
        name="nodejs-tools", packages=("axios", "cheerio", "lodash"), image="node:20-slim", language="javascript"
    )
    assert config.packages is not None
    assert [rule.name for rule in config.packages.python.auto_approved] == [
        *("pandas", "numpy", "matplotlib", "requests", "beautifulsoup4", "pillow", "openpyxl", "xlrd", "pyyaml"),
        "jinja2",
    ]
    assert config.packages.python.requires_approval[3] == PackageRule("openai", "Calls external APIs")
    assert [rule.name for rule in config.packages.python.blocked] == ["subprocess32", "pyautogui", "keyboard"]
    assert [rule.name for rule in config.packages.nodejs.auto_approved] == ["axios", "lodash", "moment", "cheerio"]


def test_a_toml_file_alone_is_a_whole_configuration(tmp_path: Path) -> None:
    assert Config.load(write(tmp_path, "agent_config.toml", AS_SPECIFIED)) == Config(
        engine="linux",
        environments=(
            Environment(
                name="python-data-science",
                packages=("pandas>=2.0", "numpy>=1.26", "matplotlib>=3.8"),
                python="3.12",
                image="python:3.12-slim",
            ),
        ),
        packages=PackagePolicy(
            python=PackageRules(
                auto_approved=("pandas", "numpy", "matplotlib", "requests"),  # type: ignore[arg-type]
                requires_approval=("torch", "tensorflow", "langchain"),  # type: ignore[arg-type]
                blocked=("subprocess32", "pyautogui"),  # type: ignore[arg-type]
            )
        ),
        package_cache_dir="/tmp/ccos-sandbox-cache",
    )


def test_sections_of_other_programs_are_ignored(tmp_path: Path) -> None:
    assert Config.load(write(tmp_path, "a.toml", "[coding_agents]\nenabled = 3\n[sandbox]\nenabled = false")) == Config(
        enabled=False
    )
    assert Config.load(write(tmp_path, "b.toml", "[coding_agents]\nimages = 3")) == Config()


@pytest.mark.parametrize(
    ("runtime", "engine", "options"),
    [
        ("linux", "linux", {}),
        ("bubblewrap", "linux", {}),
        ("docker", "container", {"client": "docker"}),
        ("podman", "container", {"client": "podman"}),
        ("gvisor", "container", {"runtime": "runsc"}),
        ("runsc", "container", {"runtime": "runsc"}),
        ("kata", "container", {"runtime": "kata"}),
        ("container", "container", {}),
        ("wasm", "wasm", {}),
        ("auto", "auto", {}),
    ],
)
def test_a_runtime_is_an_engine_and_its_options(
    runtime: str, engine: str, options: dict[str, str], tmp_path: Path
) -> None:
    config = Config.load(write(tmp_path, "a.toml", f"[sandbox]\nruntime = {runtime!r}"))
    assert (config.engine, config.engine_options) == (engine, options)
    assert set(options) <= set(inspect.signature(open_engine).parameters)


@pytest.mark.parametrize(
    ("base", "language", "python"),
    [
        ("python:3.13", "python", "3.13"),
        ("python:3.11.9-slim-bookworm", "python", "3.11.9"),
        ("registry.example.com:5000/library/python:3.14-slim", "python", "3.14"),
        (f"python:3.12@sha256:{'0' * 64}", "python", "3.12"),
        ("node:lts-slim", "javascript", ""),
        ("node", "javascript", ""),
    ],
)
def test_a_base_is_an_interpreter_and_an_image(base: str, language: str, python: str, tmp_path: Path) -> None:
    (environment,) = Config.load(write(tmp_path, "a.yaml", f"images: [{{name: a, base: '{base}'}}]")).environments
    assert (environment.image, environment.language, environment.python) == (base, language, python)
    assert environment.packages == ()


def test_a_comment_after_an_entry_is_its_reason(tmp_path: Path) -> None:
    content = """
python:
  # About the list.
  blocked:  # About the list, too.
    - a  # First: x #1
    - 'b'\t# é
    - c
    # About the next one.
    - d
  auto_approved: [e, f]  # About both.
"""
    config = Config.load(write(tmp_path, "a.yaml", content))
    assert config.packages is not None
    rules = (*config.packages.python.blocked, *config.packages.python.auto_approved)
    assert {rule.name: rule.reason for rule in rules} == {
        **{"a": "First: x #1", "b": "é"},
        **dict.fromkeys("cdef", ""),
    }
    assert all(type(rule.name) is str for rule in rules)


def test_an_empty_list_is_a_policy_and_no_list_is_none(tmp_path: Path) -> None:
    assert Config.load(write(tmp_path, "a.yaml", "python: {blocked: []}")).packages == PackagePolicy()
    assert Config.load(write(tmp_path, "b.yaml", "images: []")).packages is None
    assert Config.load() == Config()


# Several files


def test_files_may_repeat_each_other(tmp_path: Path) -> None:
    one = write(tmp_path, "a.yaml", "python: {blocked: [Foo_Bar, a]}\nimages: [{name: a, base: 'python:3.12'}]")
    two = write(tmp_path, "b.yaml", "python:\n  blocked:\n  - foo.bar  # Bad\n  - b\n")
    config = Config.load(one, two, one)
    assert len(config.environments) == 1 and config.packages is not None
    assert [(rule.name.lower(), rule.reason) for rule in config.packages.python.blocked] == [
        *(("foo.bar", "Bad"), ("a", ""), ("b", ""))
    ]


@pytest.mark.parametrize(
    ("one", "two", "about"),
    [
        ("[sandbox]\nruntime = 'docker'", "[sandbox]\nruntime = 'podman'", "sandbox.runtime"),
        ("[sandbox]\nenabled = true", "[sandbox]\nenabled = false", "sandbox.enabled"),
        (
            "[sandbox.package_allowlist]\nblocked = ['Foo.Bar']",
            "[sandbox.package_allowlist]\nauto_approved = ['foo_bar']",
            "foo-bar",
        ),
        (
            "[[sandbox.images]]\nname = 'web'\nbase = 'python:3.12'",
            "[[sandbox.images]]\nname = 'web'\nbase = 'python:3.13'",
            "web",
        ),
    ],
)
def test_a_contradiction_names_both_files(one: str, two: str, about: str, tmp_path: Path) -> None:
    sentence = refusal(write(tmp_path, "one.toml", one), write(tmp_path, "two.toml", two))
    assert "one.toml" in sentence and "two.toml" in sentence and about in sentence


# Mistakes


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        # Keys and values
        ("a.toml", "[sandbox]\nenable = true", ["sandbox", "'enable'", "'enabled'"]),
        ("a.toml", "[sandbox.package_alowlist]\nblocked = []", ["'package_alowlist'", "'package_allowlist'"]),
        ("a.toml", "[sandbox.package_allowlist]\nblock = []", ["'block'", "'blocked'"]),
        ("a.toml", "[sandbxo]\nenabled = true", ["'sandbxo'", "'sandbox'"]),
        ("a.toml", "[sandbox]\nenabled = 'yes'", ["sandbox.enabled", "true or false"]),
        ("a.toml", "[sandbox]\nenable_package_cache = 1", ["sandbox.enable_package_cache", "true or false"]),
        ("a.toml", "[sandbox]\nruntime = 3", ["sandbox.runtime", "text"]),
        ("a.toml", "[sandbox]\nruntime = 'bublewrap'", ["'bubblewrap'", "gvisor", "linux"]),
        ("a.toml", "[sandbox]\nruntime = 'process'", ["isolates nothing", "allow_unisolated=True"]),
        ("a.toml", "[sandbox]\npackage_cache_dir = 'cache'", ["sandbox.package_cache_dir", "absolute"]),
        ("a.toml", "[sandbox]\npackage_cache_dir = '/srv/../tmp'", ["sandbox.package_cache_dir", "'..'"]),
        ("a.toml", "[sandbox]\npackage_cache_dir = '/srv/\\u0000'".replace("'", '"'), ["package_cache_dir"]),
        ("a.toml", "[sandbox.images]\nname = 'a'", ["sandbox.images", "list"]),
        ("a.toml", "sandbox = 3", ["sandbox", "enabled, runtime"]),
        ("a.yaml", "pyhton: {blocked: [a]}", ["'pyhton'", "'python'"]),
        ("a.yaml", "images: [{name: a, base: 'python:3.12', package: []}]", ["image 1", "'package'", "'packages'"]),
        ("a.yaml", "images: [{base: 'python:3.12'}]", ["image 1", "'name'"]),
        ("a.yaml", "images: [{name: a}]", ["image 1", "'base'", "python:3.12-slim"]),
        ("a.yaml", "images: [{name: host, base: 'python:3.12'}]", ["'host'", "has a meaning of its own"]),
        ("a.yaml", "images: [{name: ../a, base: 'python:3.12'}]", ["'../a'", "letters"]),
        ("a.yaml", "images: [{name: a, base: 'ubuntu:24.04'}]", ["'ubuntu:24.04'", "python:3.12-slim"]),
        ("a.yaml", "images: [{name: a, base: 'python:slim'}]", ["'python:slim'", "version"]),
        ("a.yaml", "images: [{name: a, base: '--rm/python:3.12'}]", ["'--rm/python:3.12'"]),
        ("a.yaml", "images: [{name: a, base: 'python:3.12', warm_pool_size: -1}]", ["warm_pool_size", "-1"]),
        ("a.yaml", "images: [{name: a, base: 'python:3.12', warm_pool_size: true}]", ["warm_pool_size", "True"]),
        ("a.yaml", "images: [{name: a, base: 'python:3.12', packages: pandas}]", ["packages", "list", "pandas"]),
        ("a.yaml", "images: [{name: a, base: 'python:3.12', packages: [3]}]", ["packages", "text", "3"]),
        ("a.yaml", "images: &a [{name: b, base: 'python:3.12'}]", ["line 1", "anchor"]),
        (
            "a.yaml",
            "images: [{name: a, base: 'python:3.12'}, {name: a, base: 'python:3.12'}]",
            ["two images", "'a'"],
        ),
        ("a.yaml", "images: [3]", ["image 1", "name, base"]),
        ("a.yaml", "python: {blocked: [a], auto_approved: [A]}", ["itself", "'a'"]),
        ("a.yaml", "python: {blocked: [no]}", ["python.blocked", "False", "quotes"]),
        ("a.yaml", "python: {blocked: }", ["python.blocked", "list"]),
        # Syntax
        ("a.yaml", "python: {blocked: [a]}\npython: {}", ["line 2", "'python'", "second"]),
        ("a.yaml", "python: {blocked: [&a b, *a]}", ["line 1", "anchor, alias or tag"]),
        ("a.yaml", "python: !!python/object/apply:os.system [exit]", ["line 1", "anchor, alias or tag"]),
        ("a.yaml", "python: {on: []}", ["line 1", "key"]),
        ("a.yaml", "python: " + "[" * 5000, ["nested"]),
        ("a.yaml", "python: {", ["not YAML", "line"]),
        ("a.yaml", "python: {blocked: [2024-13-13]}", ["not YAML"]),
        ("a.yaml", "images: []\n---\nimages: []", ["several"]),
        ("a.yaml", "- python", ["begin with a key"]),
        ("a.toml", "[sandbox", ["not TOML", "table"]),
        ("a.toml", "a = " + "[" * 100_000, ["not TOML"]),
        # Files
        ("a.yaml", "", ["empty"]),
        ("a.yaml", "# nothing\n", ["empty"]),
        ("a.toml", "\n", ["empty"]),
        ("a.toml", b"\xef\xbb\xbf[sandbox]", ["byte order mark"]),
        ("a.yaml", "images: []".encode("utf-16"), ["byte order mark"]),
        ("a.toml", b"[sandbox]\nruntime = '\xff'", ["UTF-8"]),
        ("a.json", "{}", [".toml", ".yaml"]),
    ],
)
def test_a_mistake_is_one_sentence_with_the_file_and_the_key(
    name: str, content: str | bytes, parts: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path, name, content)
    sentence = refusal(path)
    assert sentence.count(str(path)) == 1
    assert [part for part in parts if part not in sentence] == []


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    with open(tmp_path / "large.yaml", "wb") as large:
        large.truncate(100_000_000)
    for name, part in {
        "folder.yaml": "directory",
        "pipe.yaml": "pipe",
        "large.yaml": "larger than 1 MiB",
        "missing.yaml": "No such file",
    }.items():
        sentence = refusal(tmp_path / name)
        assert name in sentence and part in sentence
    assert "argument" in refusal([tmp_path / "a.toml"])


def test_a_long_number_of_base_60_takes_no_time(tmp_path: Path) -> None:
    image = "{name: a, base: 'python:3.12', warm_pool_size: " + "1:" * 250_000 + "1}"
    assert "'1:1:1" in refusal(write(tmp_path, "a.yaml", f"images: [{image}]"))


def test_yaml_without_its_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ActboxError, match="pip install pyyaml"):
        Config.load(write(tmp_path, "a.yaml", "images: []"))
    assert Config.load(write(tmp_path, "a.toml", "[sandbox]")) == Config()
