"""Every code block of the README and of the pages for users is run, and their tables say what the code says."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from decimal import Decimal
from pathlib import Path

import pytest

import actbox
from actbox.capabilities import Prices
from actbox.cli.solve_request import replies_from
from actbox.codeact.blocks import program_in
from actbox.codegen import ErrorClass, Profiles, RetryPolicy
from actbox.codegen.retry import CLASSES
from tests.code_blocks import Block, blocks_of, check_command, check_python, commands_of
from tests.conftest import engine_check
from tests.integrations.model_wires import KEY, Reply, Responses, serving

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Tests of their own run the blocks of these pages: they need a further package, or a check of their output.
RUN_ELSEWHERE = ("agent-framework.md", "content.md", "rtfs.md", "strands.md")
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.glob("*.md")) if page.name not in RUN_ELSEWHERE)]
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page)]
PYTHON = [(page, block) for page, block in BLOCKS if block.language == "python"]
COMMANDS = [(page, command) for page, block in BLOCKS for command in commands_of(block)]


@pytest.fixture
def an_isolated_engine() -> None:
    found = engine_check("linux")
    if not found.works:
        pytest.skip(f"the pages use the default engine, and none that isolates works here: {found.reason}")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.usefixtures("an_isolated_engine")
@pytest.mark.parametrize("block", [pytest.param(block, id=f"{named(page)}:{block.line}") for page, block in PYTHON])
def test_a_python_block_prints_what_its_comments_say(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "agent_framework" in block.code and importlib.util.find_spec("agent_framework") is None:
        pytest.skip("Agent Framework is not installed: pip install 'actbox[agent-framework]'")
    by_framework = "OpenAIChatClient" in block.code
    if by_framework and importlib.util.find_spec("agent_framework_openai") is None:
        pytest.skip("the framework's clients for OpenAI are not installed: pip install agent-framework-openai")
    if by_framework:
        replies = [Reply(program="population('Oslo') - population('Bergen')"), Reply("It is 426,521 people more.")]
    elif "openai:" in block.code:
        replies = [Reply("I look both up.", "final_answer(population('Oslo') - population('Bergen'))")]
    else:
        check_python(block, tmp_path)
        return
    with serving(Responses(), replies) as provider:  # in place of the model's provider
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        check_python(block, tmp_path)
    assert len(provider.requests) == len(replies)


def test_the_readme_is_short_and_shows_what_the_demo_prints() -> None:
    text = (ROOT / "README.md").read_text()
    assert (DOCS / "images" / "demo.txt").read_text() in text
    prose = re.sub(r"^```.*?^```$|^\|.*?$|<[^>]*>|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    assert len(prose.split()) <= 1200


@pytest.mark.slow
@pytest.mark.usefixtures("an_isolated_engine")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            command,
            # Doctor tries each limit of each engine, and the demo draws a chart, as in tests of their own.
            marks=[pytest.mark.long] if command.startswith(("actbox doctor", "actbox demo")) else [],
            id=f"{named(page)}:{command}",
        )
        for page, command in COMMANDS
    ],
)
def test_a_command_works(command: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os\nprint(names, os.listdir('/data'))\nopen('output/x', 'w').write('x')"
    )
    (tmp_path / "programs.jsonl").write_text('{"id": "a", "code": "n + 1", "inputs": {"n": 1}, "timeout": 50}\n')
    (tmp_path / "data").mkdir()
    check_command(command, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([\w-]+)", page.read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_of_limits_is_the_codes() -> None:
    text = (DOCS / "limits.md").read_text()
    for spec in dataclasses.fields(actbox.Limits):
        default = f"{spec.default:g}" if isinstance(spec.default, float) else str(spec.default)
        unit, most, about = (spec.metadata[name] for name in ("unit", "most", "about"))
        row = f"| `{spec.name}` | {unit} | {default} | {most} | {about} |"
        assert row in text, row


def test_the_page_on_limits_says_what_happens_at_each() -> None:
    reached = (DOCS / "limits.md").read_text().partition("| limit | when it is reached |")[2]
    for spec in dataclasses.fields(actbox.Limits):
        assert f"`{spec.name}`" in reached, spec.name


def test_the_page_on_engines_names_them_all() -> None:
    text = (DOCS / "engines.md").read_text()
    for engine in actbox.ENGINES:
        assert f"`{engine}`" in text, engine


def test_the_page_on_results_has_each_field_of_a_result_and_of_its_usage_and_each_kind_of_error() -> None:
    cells = re.findall(r"^\| (`.*?`) \|", (DOCS / "results.md").read_text(), re.MULTILINE)
    names = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    fields = {spec.name for kind in (actbox.ExecutionResult, actbox.Usage) for spec in dataclasses.fields(kind)}
    assert names == fields | {kind.value for kind in actbox.ErrorKind}


def test_the_page_on_coding_agents_has_the_class_of_each_kind_of_error() -> None:
    text = (DOCS / "coding-agents.md").read_text()
    rows = re.findall(r"^\| ((?:`[A-Z_]+`(?:, )?)+) \| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    classes = {kind: name for kinds, name, _ in rows for kind in re.findall(r"`(\w+)`", kinds)}
    assert classes == {kind.value: error_class.value for kind, error_class in CLASSES.items()}
    for _, name, further in rows:
        bound = RetryPolicy().further(ErrorClass(name))
        assert further in ("no bound of its own" if bound is None else str(bound), "never any"), name


def test_the_files_on_the_page_of_coding_agents_are_read(tmp_path: Path) -> None:
    texts = {block.language: block.code for block in blocks_of(DOCS / "coding-agents.md")}
    (tmp_path / "retry-policy.yaml").write_text(texts["yaml"])
    assert RetryPolicy.load(tmp_path / "retry-policy.yaml") == RetryPolicy()
    (tmp_path / "agent_config.toml").write_text(texts["toml"])
    profiles = Profiles.load(tmp_path / "agent_config.toml")
    assert profiles.select(language="rust").model_name == "anthropic:claude-sonnet-4-6"


def test_the_files_on_the_page_of_the_command_line_are_read(tmp_path: Path) -> None:
    texts = {block.language: block.code for block in blocks_of(DOCS / "command-line.md")}
    (tmp_path / "replies.md").write_text(texts["markdown"])
    assert [program_in(reply) for reply in replies_from(tmp_path / "replies.md")] == ["1 / 0\n", "6 * 7\n"]
    (tmp_path / "prices.toml").write_text(texts["toml"])
    assert Prices.load(tmp_path / "prices.toml").models["openai:gpt-5"].input == Decimal("1.25")
