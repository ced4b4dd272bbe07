"""The commands about governed capabilities, `actbox approvals`, `actbox log` and `actbox usage`, and their options.

As in `app.py`, each imports its own module when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(approvals, name="approvals")
    app.add_typer(log, name="log")
    app.command()(usage)


approvals = typer.Typer(help="List the questions of governed capabilities that wait for an approver, and answer them.")
_DATABASE = typer.Option(metavar="URL", help="sqlite:///path or postgresql://…; default: the variable ACTBOX_DATABASE.")
_APPROVAL = typer.Argument(metavar="ID", help="The approval, as `list` shows it.", show_default=False)
_BY = typer.Option("--by", metavar="WHO", help="Who answers. Default: your login name.")
_REASON = typer.Option("--reason", metavar="TEXT", help="Why.")
_FORM = typer.Option("--format", metavar="FORM", help="text or json.")


@approvals.command("list")
def approvals_list(
    state: Annotated[
        str, typer.Option(metavar="STATE", help="pending, approved, used, denied, revoked or expired; default: all.")
    ] = "",
    form: Annotated[str, _FORM] = "text",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """List questions and answers, the newest first."""
    from .approvals import list_approvals

    return list_approvals(database, state, form)


@approvals.command("show")
def approvals_show(
    id: Annotated[str, _APPROVAL], form: Annotated[str, _FORM] = "text", database: Annotated[str, _DATABASE] = ""
) -> int:
    """Show all that a question is about."""
    from .approvals import show_approval

    return show_approval(database, id, form)


@approvals.command("approve")
def approvals_approve(
    id: Annotated[str, _APPROVAL],
    scope: Annotated[
        str, typer.Option(metavar="SCOPE", help="once, or for the same arguments again: run (in this run) or always.")
    ] = "once",
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATTERN",
            help="Also for other texts of an argument, such as 'path=reports/*': * is any text without / and the like, "
            "** any text. Other arguments must be the same. May be repeated.",
        ),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(metavar="HOURS", help="How long an approval for more than one call holds.")
    ] = None,
    sure: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    by: Annotated[str, _BY] = "",
    reason: Annotated[str, _REASON] = "",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Approve a question."""
    from .approvals import approve

    patterns = pattern or ()
    return approve(database, id, by=by, scope=scope, pattern=patterns, reason=reason, hours=hours, sure=sure)


@approvals.command("deny")
def approvals_deny(
    id: Annotated[str, _APPROVAL],
    by: Annotated[str, _BY] = "",
    reason: Annotated[str, _REASON] = "",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Refuse a question."""
    from .approvals import deny

    return deny(database, id, by=by, reason=reason)


@approvals.command("revoke")
def approvals_revoke(
    id: Annotated[str, _APPROVAL],
    by: Annotated[str, _BY] = "",
    reason: Annotated[str, _REASON] = "",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Take an approval back, also while something runs by it."""
    from .approvals import revoke

    return revoke(database, id, by=by, reason=reason)


@approvals.command("serve")
def approvals_serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="0 for any that is free.", min=0, max=65535)] = 8300,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name of the page, beyond loopback. May be repeated."),
    ] = None,
    cleared: Annotated[str, typer.Option(metavar="LABEL", help="Show arguments up to this label. Default: all.")] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A file with the token; it is made if there is none.")
    ] = None,
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Serve a web page for approvers, and print its address: whoever has it can answer."""
    from .approvals import serve

    return serve(database, host=host, port=port, names=names or (), cleared=cleared, token_file=token_file)


log = typer.Typer(help="Show, verify, export and trim the journal of governed capabilities.")


_KEY = typer.Option("--key", metavar="PATH", help="The key, or its public part (Ed25519, PEM).")
_AFTER = typer.Option(metavar="NUMBER", help="Only the entries after this one.")


@log.command("show")
def log_show(
    invocation: Annotated[str, typer.Option(metavar="ID", help="Only the entries of one invocation.")] = "",
    capability: Annotated[str, typer.Option(metavar="ID", help="Only the entries about one capability.")] = "",
    caller: Annotated[str, typer.Option(metavar="WHO", help="Only the entries of one caller.")] = "",
    kind: Annotated[str, typer.Option(metavar="KIND", help="Only begun, ended, refused or trim.")] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="A date and time such as 2026-11-29T10:30, or 12h.")] = "",
    after: Annotated[int, _AFTER] = 0,
    blobs: Annotated[bool, typer.Option("--blobs", help="Also what went in and came out.")] = False,
    form: Annotated[str, _FORM] = "text",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Print the journal, the oldest entry first."""
    from .log import show_log

    filters = {"invocation": invocation, "capability": capability, "caller": caller, "kind": kind, "after": after}
    return show_log(database, form, since=since, blobs=blobs, **filters)


@log.command("tail")
def log_tail(
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="NUMBER", help="How many entries.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Then print new entries as they come.")] = False,
    form: Annotated[str, _FORM] = "text",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Print the last entries."""
    from .log import tail_log

    return tail_log(database, form, lines=lines, follow=follow)


@log.command("verify")
def log_verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Exported files, in order, instead of a database.", show_default=False
        ),
    ] = None,
    key: Annotated[Path | None, _KEY] = None,
    expect: Annotated[
        str, typer.Option(metavar="NUMBER:HASH", help="An entry that must be there, as an earlier `verify` printed it.")
    ] = "",
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Find what was changed, dropped, swapped or cut off; the exit code is 1 then."""
    from .log import verify_log

    return verify_log(database, key=key, files=tuple(files or ()), expect=expect)


@log.command("export")
def log_export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.", show_default=False)],
    after: Annotated[int, _AFTER] = 0,
    blobs: Annotated[bool, typer.Option("--blobs", help="Also what went in and came out, in base64.")] = False,
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Write the journal to a file, one JSON object a line."""
    from .log import export_log

    return export_log(database, file, after=after, blobs=blobs)


@log.command("trim")
def log_trim(
    before: Annotated[
        str, typer.Option(metavar="TIME", help="A date and time such as 2026-11-29, or 30d.", show_default=False)
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file to which they are written first.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The private key that the registry signs with.")
    ] = None,
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Remove the entries from before a time. The chain goes on, and an entry says what was removed."""
    from .log import trim_log

    return trim_log(database, before=before, into=into, key=key)


def usage(
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="KEY",
            help="capability, agent, user, conversation, model, engine or day; may be repeated. Default: capability.",
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="Only what ended since then: 2026-11-30, 2026-11-30T12:00, 24h or 7d.")
    ] = "",
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file of prices, in place of the registry's.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all columns as CSV, and nothing else.")] = False,
    database: Annotated[str, _DATABASE] = "",
) -> int:
    """Show what governed capabilities have used, and what it cost, from the journal.

    The table leaves out columns in which there is nothing, and rounds. Money
    is in US dollars: `delegation` for tokens, `sandbox` for processor time,
    memory, egress and storage. `+?` marks a sum that lacks money, because a
    model or an invocation has no price.

    FILE has a table `models.NAME` for each model, with `input`, `output`
    and `cached` in dollars for a million tokens, and a table `sandbox` with
    `cpu_second`, `gib_second`, `egress_gib` and `storage_gib`.
    """
    from .usage import print_usage

    return print_usage(database, by or ["capability"], since=since, prices=prices, as_csv=as_csv)
