"""The commands and their options, and the edge where every error becomes one sentence and a hint.

Nothing here does the work: each command imports its own module when it is called, so that `actbox --version` and
`actbox --help` load no engine.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from actbox._version import SUMMARY, __version__
from actbox.core.errors import ActboxError, SandboxUnavailable

from . import coding, governing
from .errors import SANDBOX_FAILED, SIGNALLED, USAGE, NoSandbox, UsageError, in_flags

app = typer.Typer(
    name="actbox",
    help=SUMMARY,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# typer's usage errors have no common public base class in every version; the base of BadParameter covers them all.
_TyperUsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run_app(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code. Usage errors go to stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = typer.main.get_command(app).main(given or ["--help"], prog_name="actbox", standalone_mode=False)
    except _TyperUsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "actbox"
        return _complain(error.format_message(), f"{command} --help shows its usage", USAGE)  # type: ignore[attr-defined]
    except UsageError as error:
        return _complain(str(error), error.hint, USAGE)
    except NoSandbox as error:
        return _complain(str(error), error.hint, SANDBOX_FAILED)
    except ActboxError as error:
        code = SANDBOX_FAILED if isinstance(error, SandboxUnavailable) else USAGE
        return _complain(in_flags(str(error)), "", code)
    except (KeyboardInterrupt, typer.Abort):
        return SIGNALLED + signal.SIGINT
    return code if isinstance(code, int) else 0


def _complain(sentence: str, hint: str, code: int) -> int:
    print(f"actbox: {sentence}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"actbox {__version__}\n{SUMMARY}")
        raise typer.Exit


@app.callback()
def _actbox(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    pass


_SANDBOX = typer.Option("--sandbox", metavar="ENGINE", help="The engine; `actbox doctor` lists those that work here.")
_PRELOAD = typer.Option(
    metavar="MODULE", help="Import a module once, before all programs, if the engine can preload. May be repeated."
)
_OPTION = typer.Option(
    "--option",
    metavar="NAME=VALUE",
    help="An option of the engine, such as image=python:3.13-slim for container; the error for an unknown option lists "
    "the known ones. May be repeated.",
)
_ALLOW = typer.Option("--allow-unisolated", help="Accept an engine that does not isolate programs from the host.")


@app.command()
def run(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="The program; `-` reads it from standard input.", show_default=False),
    ] = None,
    code: Annotated[str | None, typer.Option("-c", metavar="CODE", help="The source of the program.")] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="python, javascript, typescript or rtfs. Default: by FILE's suffix, else the sandbox's language.",
        ),
    ] = None,
    sandbox: Annotated[str, _SANDBOX] = "auto",
    options: Annotated[list[str] | None, _OPTION] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End the program after this time. Default: 60.")
    ] = None,
    memory: Annotated[
        int | None, typer.Option(metavar="MIB", help="Memory of all its processes together. Default: 1024.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="Bind a variable before the first line. May be repeated."),
    ] = None,
    mounts: Annotated[
        list[str] | None,
        typer.Option(
            "--mount",
            metavar="HOST:GUEST[:MODE]",
            help="Mount a file or directory of the host. MODE is ro (the default), rw (the program may change the "
            "host's files) or overlay (its changes are discarded). A relative GUEST lies below /input. "
            "May be repeated.",
        ),
    ] = None,
    domains: Annotated[
        list[str] | None,
        typer.Option(
            "--domain",
            metavar="HOST[=METHODS]",
            help="Let the program reach a host by HTTP, such as api.example.com, '*.example.com' or "
            "https://example.com:8443=GET,HEAD. May be repeated; no other host can be reached.",
        ),
    ] = None,
    dependencies: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="REQUIREMENT",
            help="A package for the program, such as openpyxl or 'pandas>=2.2'; it is installed if the environment "
            "lacks it. May be repeated.",
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--with-requirements",
            metavar="FILE",
            help="The packages of a requirements.txt, pyproject.toml or uv.lock. May be repeated.",
        ),
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A file with rules for packages, environments or an engine; its rules then hold for --with too, and "
            "you are asked about the rest. May be repeated.",
        ),
    ] = None,
    environment: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The packages that the program sees: host (this environment's), clean (none), a named environment, or "
            "auto: the named one that has most of the program's dependencies, else host.",
        ),
    ] = "auto",
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Save the program's files from /output, and its figures."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON document, and nothing else.")
    ] = False,
    preload: Annotated[list[str] | None, _PRELOAD] = None,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE=VERDICT",
            help="Review the program before it runs, as `actbox review` does. The verdict of a finding: block does not "
            "run the program, ask asks you at the terminal (without a terminal the answer is no), warn prints a "
            "warning. `spec` stands for the rules of that preset. May be repeated; without a rule nothing is reviewed.",
        ),
    ] = None,
    allow_unisolated: Annotated[bool, _ALLOW] = False,
) -> int:
    """Run a program in a sandbox: Python, JavaScript, TypeScript or RTFS.

    Output appears while the program prints it. As with `python FILE`,
    the value of the last expression is not shown: print it, or use
    `--json`. An RTFS program prints nothing: its value is shown.

    A review (--rule) is advice on top of isolation, never instead of it.

    The exit code is the program's own; 124 after a timeout, 125 if the
    sandbox failed or a review kept the program from running, 2 for a
    wrong command line.
    """
    from .arguments import parse_request
    from .engine import Opening, options_from
    from .run import run_request

    request = parse_request(
        file=file,
        code=code,
        timeout=timeout,
        memory=memory,
        inputs=inputs or [],
        mounts=mounts or [],
        domains=domains or [],
        dependencies=dependencies or [],
        files=files or [],
        config=config or [],
        environment=environment,
        preload=preload or [],
        output=output,
        rules=rules or [],
        language=language,
        sandbox=sandbox,
    )
    engine = request.engine if sandbox == "auto" else sandbox
    of_files = request.config.engine_options if request.config is not None and sandbox == "auto" else {}
    chosen = {**of_files, **options_from(options or [])}
    opening = Opening(engine=engine, allow_unisolated=allow_unisolated, options=chosen)
    return run_request(request, opening, as_json=as_json)


@app.command()
def repl(
    language: Annotated[str, typer.Option(metavar="NAME", help="The language: rtfs, the only one so far.")] = "rtfs",
) -> int:
    """Evaluate RTFS line by line, and keep the definitions.

    A form may span several lines: it ends when its brackets are closed.
    `:doc NAME` documents a function or a form, `:quit` or Ctrl-D ends the
    session, Ctrl-C cancels the evaluation or the line being typed.
    """
    from .repl import converse

    return converse(language)


@app.command("map")
def map_programs(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The programs, one per line; `-` reads standard input.")],
    out: Annotated[Path, typer.Option("--out", metavar="RESULTS", help="The file for the results, one per line.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue RESULTS: run the programs whose ids are not in it.")
    ] = False,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="How many programs run at once. Default: two per processor.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End each program after this time. Default: 60. A line may set less."),
    ] = None,
    memory: Annotated[
        int | None, typer.Option(metavar="MIB", help="Memory of each program's processes. Default: 1024.")
    ] = None,
    sandbox: Annotated[str, _SANDBOX] = "auto",
    options: Annotated[list[str] | None, _OPTION] = None,
    ordered: Annotated[
        bool,
        typer.Option(
            "--ordered/--unordered", help="Write results in the order of FILE, or each as soon as it is ready."
        ),
    ] = False,
    preload: Annotated[list[str] | None, _PRELOAD] = None,
    language: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The language of lines without `language`. Default: the sandbox's own."),
    ] = None,
    allow_unisolated: Annotated[bool, _ALLOW] = False,
) -> int:
    """Run many programs, each in a sandbox of its own, and write a line of JSON for each result.

    Each line of FILE is a JSON object with `code` and optional fields:
    `id` (text or a whole number; default: the text "line 7" for line 7),
    `inputs` (variables by name), `language` and `timeout` (seconds).
    Other fields are ignored. Each line of RESULTS has the id and the
    fields of `actbox run --json`. A program that fails, or cannot be
    run, has a line too.

    Finished work is not lost. After Ctrl-C every finished program is in
    RESULTS (with --ordered, those that waited for their turn too). After
    a crash at most the last line is incomplete: --resume removes it and
    runs the rest. If programs have no ids, do not change FILE before you
    resume.

    The exit code is 0 if every line was run, even if programs failed; 1
    if some line could not be run as it is; 125 if the sandbox failed a
    program, or RESULTS cannot be written; 2 for a wrong command line;
    130 after Ctrl-C.
    """  # short lines: typer keeps the line breaks of all but the first paragraph
    from .engine import Opening, options_from
    from .map import map_request, parse_map_request

    request = parse_map_request(
        file=file,
        out=out,
        resume=resume,
        concurrency=concurrency,
        timeout=timeout,
        memory=memory,
        preload=preload or [],
        opening=Opening(engine=sandbox, allow_unisolated=allow_unisolated, options=options_from(options or [])),
        ordered=ordered,
        language=language,
    )
    return map_request(request)


@app.command()
def review(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="The programs; `-` reads one from standard input.")
    ],
    verdicts: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE=VERDICT",
            help="The verdict of a rule: allow, warn, ask or block. RULE may also name a subject, such as "
            "import:socket; `all` stands for every rule that is not named, and `spec` for the rules of that preset. "
            "May be repeated.",
        ),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="NAME", help="A tool that the programs may call. May be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")] = False,
) -> int:
    """Read programs in Python or JavaScript without running them, and report what stands out.

    This is advice on top of isolation, never instead of it: a program without findings may still do harm.

    The exit code is 0 if nothing is worse than a warning, 1 if a rule blocks a program, 3 if a rule asks.
    """
    from .review import review_files

    return review_files(files, verdicts or [], tools or [], as_json=as_json)


@app.command()
def show(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A result or a transcript; `-` reads standard input.", show_default=False),
    ],
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="The format of FILE. Default: recognized from its content."),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="OUT", help="Write one self-contained page of HTML; `-` prints it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the messages as one JSON document in actbox's own format.")
    ] = False,
) -> int:
    """Show a result or a transcript: turns, code, output, tool calls, pictures, errors.

    FILE is the output of `actbox run --json` or `actbox map`, or a
    response, a request's messages or a captured stream in a provider's
    format that actbox knows: as one JSON document, as one document or
    event per line, or as server-sent events.

    Nothing in a transcript is run or fetched.
    """
    from .show import show_file

    return show_file(file, format=format, page=page, as_json=as_json)


@app.command()
def doctor(
    engines: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENGINE]...", help="The engines to try. Default: all.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show the trial of each limit and wall.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")] = False,
) -> int:
    """Report which engine is used here, and for each engine whether it works, what it lacks, and how to fix it.

    The command starts every engine and tries each of its limits with a
    program that goes beyond it. This takes a while, on a busy machine
    minutes; each line is printed as soon as it is known. `actbox doctor
    linux` tries one engine.

    The exit code is 0 if some engine of full CPython, or one of those
    named, isolates programs from this machine, and 1 if none does.
    """
    from .doctor import examine

    return examine(engines or [], full=full, as_json=as_json)


@app.command()
def demo(
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="A model such as `openai:NAME`, `openai-chat:NAME`, `anthropic:NAME` or `google:NAME`; its key comes "
            "from the provider's environment variable. Without one, a fixed conversation is replayed against the real "
            "sandbox.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="The model's server, if it is another than the provider's own. vLLM, Ollama and most others need "
            "`openai-chat:NAME`.",
        ),
    ] = None,
    sandbox: Annotated[str, _SANDBOX] = "auto",
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Where the charts go.")] = Path("actbox-demo"),
    allow_unisolated: Annotated[bool, _ALLOW] = False,
) -> int:
    """Run the demo: an agent answers a question about real data with code, makes a mistake, fixes it, draws a chart.

    Then a coding agent writes a program for a task, whose first two
    versions fail, and refines it until it passes its check.
    """
    from .demo import show_demo
    from .engine import Opening

    opening = Opening(engine=sandbox, allow_unisolated=allow_unisolated)
    return show_demo(model, output, opening, base_url)


environment = typer.Typer(help="Named environments: sets of packages that are locked and built once.")
app.add_typer(environment, name="environment")
_ENVIRONMENT = typer.Argument(metavar="NAME", help="The name of the environment.", show_default=False)


@environment.command("build")
def environment_build(
    name: Annotated[str, _ENVIRONMENT] = "",
    packages: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="REQUIREMENT", help="A package of the environment. May be repeated."),
    ] = None,
    python: Annotated[str, typer.Option(metavar="VERSION", help="The Python, such as 3.12. Default: this one.")] = "",
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file that defines environments; without NAME all are built.")
    ] = None,
    index: Annotated[
        str | None, typer.Option(metavar="URL", help="The package index. Default: that of uv's and pip's settings.")
    ] = None,
    npm_registry: Annotated[
        str | None, typer.Option(metavar="URL", help="The registry of npm. Default: that of npm's settings.")
    ] = None,
    language: Annotated[
        str, typer.Option(metavar="NAME", help="The language of its programs: python or javascript.")
    ] = "python",
    source_builds: Annotated[
        bool, typer.Option("--source-builds", help="Build packages that have no wheel, in a sandbox.")
    ] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Lock the newest versions anew.")] = False,
    vulnerabilities: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A file or directory of advisories (OSV): refuse what they name."),
    ] = None,
) -> int:
    """Lock an environment, fetch its packages, and keep it for programs. For a fresh lock each week run it with
    --refresh by cron or a systemd timer.
    """
    from actbox.core.packages import PackagePolicy

    from .environment import build

    rules = PackagePolicy(
        index=index, npm_registry=npm_registry, vulnerabilities=vulnerabilities, source_builds=source_builds
    )
    return build(name, packages or (), python, language, config, rules, refresh)


@environment.command("list")
def environment_list() -> int:
    """List the environments, the packages that programs were given beyond these, and the size of the package cache."""
    from .environment import list_all

    return list_all()


@environment.command("show")
def environment_show(
    name: Annotated[str, _ENVIRONMENT],
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="text, json or cyclonedx.")] = "text",
) -> int:
    """Show what an environment has, with hashes, and when it was built, compared with advisories, and reviewed."""
    from .environment import show

    return show(name, form)


@environment.command("lock")
def environment_lock(name: Annotated[str, _ENVIRONMENT]) -> int:
    """Print the lock of an environment: requirements with hashes, or a lock of npm."""
    from .environment import lock

    return lock(name)


@environment.command("review")
def environment_review(
    name: Annotated[str, _ENVIRONMENT],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="The person who has reviewed it.")],
) -> int:
    """Record that somebody has reviewed what an environment has; a policy may demand it (PackagePolicy.review_days)."""
    from .environment import review

    return review(name, by)


@environment.command("rm")
def environment_rm(name: Annotated[str, _ENVIRONMENT]) -> int:
    """Remove an environment."""
    from .environment import remove

    return remove(name)


@environment.command("gc")
def environment_gc(
    days: Annotated[float, typer.Option(metavar="DAYS", help="Keep what was used in so many days.")] = 7,
    gib: Annotated[float, typer.Option(metavar="GIB", help="Keep at most so much, the newest first.")] = 10,
) -> int:
    """Remove packages from the cache that nobody has used."""
    from .environment import collect

    return collect(days, gib)


governing.add_to(app)
coding.add_to(app)
