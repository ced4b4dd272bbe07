"""The commands about coding agents, `actbox solve` and `actbox profiles`, and their options.

As in `app.py`, each imports its own module when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("solve")(solve)
    app.add_typer(profiles, name="profiles")


def solve(
    goals: Annotated[list[str], typer.Argument(metavar="GOAL…", help="What to do, in words.", show_default=False)],
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="FILE", help="A file that programs may read. May be repeated."),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="NAME", help="A file that the program must write. May be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="The model that writes the programs, such as `openai:NAME`, `openai-chat:NAME`, `anthropic:NAME` or "
            "`google:NAME`; its key comes from the provider's environment variable.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="The server of --model, if it is another than the provider's own. vLLM, Ollama and most others need "
            "`openai-chat:NAME`.",
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="The profile of agent_config.toml whose model writes.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The TOML file with profiles. Default: agent_config.toml here, or in config/. With --model, the model "
            "plans, and delegates longer programs to the profiles of this file.",
            show_default=False,
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(metavar="N", help="The most programs that are tried. Default: 3, or that of --retry-policy."),
    ] = None,
    best_of: Annotated[
        int,
        typer.Option(
            "--best-of", metavar="N", help="Make N candidates at once, each with its own attempts, and choose the best."
        ),
    ] = 1,
    budget_usd: Annotated[
        float | None,
        typer.Option(
            "--budget-usd",
            metavar="X",
            help="Ask the model no more once X US dollars are spent. Needs its price: in its profile, or by --prices.",
        ),
    ] = None,
    checks: Annotated[
        list[Path] | None,
        typer.Option(
            "--check",
            metavar="FILE",
            help="What the outcome must pass: a Python file with a function check(result), which runs on this machine "
            "and returns true, or false or the problem in words; one with pytest tests; a JSON Schema of the answer "
            "(.json); text with >>> examples. May be repeated.",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The programs' language, such as javascript; auto: the model chooses. Default: the sandbox's own.",
        ),
    ] = None,
    retry_policy: Annotated[
        Path | None,
        typer.Option(
            "--retry-policy",
            metavar="FILE",
            help="A YAML file that says how many programs are tried, and after which errors: max_attempts, "
            "attempt_backoff_ms, error_specific, max_coding_turns.",
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file with the prices of models: input and output, in US dollars for a million tokens, in a "
            'table \\[models."PROVIDER:NAME"].',  # Rich reads brackets as markup
        ),
    ] = None,
    write_tests: Annotated[
        bool, typer.Option("--write-tests", help="Have the model write tests first, without seeing a program.")
    ] = False,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="PAGE", help="Write one page of HTML with all attempts; `-` prints it."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Save all files and the program here. Default: the files named by --output in the current directory.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document with all attempts, and nothing else.")
    ] = False,
    sandbox: Annotated[
        str,
        typer.Option("--sandbox", metavar="ENGINE", help="The engine; `actbox doctor` lists those that work here."),
    ] = "auto",
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="An option of the engine. May be repeated."),
    ] = None,
    allow_unisolated: Annotated[
        bool,
        typer.Option("--allow-unisolated", help="Accept an engine that does not isolate programs from the host."),
    ] = False,
    replies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Replay the replies in this file, separated by lines `---`, in place of a model, at no cost.",
        ),
    ] = None,
) -> int:
    """Have a model write a program for a task, run it in a sandbox, and correct it until it passes its checks.

    Each attempt is shown as it happens: the change to the program before,
    the class of its error, the checks that failed, the cost so far.

    Several goals are solved one after the other, like the cells of a
    notebook: each program finds the variables that the one before left.
    --output and --check are those of the last one.

    The exit code is 0 if the task is solved, 1 if it is not, 2 for a
    wrong command line, 125 if the sandbox failed or a file could not be
    saved, 130 after Ctrl-C.
    """
    from .engine import Opening, options_from
    from .solve import solve_request
    from .solve_request import parse_solve_request

    opening = Opening(engine=sandbox, allow_unisolated=allow_unisolated, options=options_from(options or []))
    request = parse_solve_request(
        goals,
        inputs=inputs or [],
        outputs=outputs or [],
        model=model,
        base_url=base_url,
        profile=profile,
        config=config,
        replies=replies,
        attempts=attempts,
        best_of=best_of,
        budget_usd=budget_usd,
        checks=checks or [],
        language=language,
        sandbox=sandbox,
        retry_policy=retry_policy,
        prices=prices,
        write_tests=write_tests,
        page=page,
        save=save,
        as_json=as_json,
    )
    return solve_request(request, opening, as_json=as_json)


profiles = typer.Typer(help="Check the profiles of coding agents in agent_config.toml.")


@profiles.command("check")
def profiles_check(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The TOML file that names the models. Default: agent_config.toml here, or in config/.",
            show_default=False,
        ),
    ] = None,
    ping: Annotated[
        bool, typer.Option("--ping", help="Also ask each model a short question, which costs a few tokens.")
    ] = False,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="text or json.")] = "text",
) -> int:
    """Say which profiles would work, and why others do not: a key, a package or an address that is missing.

    The exit code is 1 if the default or the model of a language does not work.
    """
    from .profiles import check_profiles

    return check_profiles(config, ping=ping, form=form)
