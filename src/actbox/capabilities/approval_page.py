"""A small web page for approvers: the questions that wait, all that each is about, and a form to answer.

`app` is a Starlette application, which a larger service can mount. Its pages have no script.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from actbox.content.safe_text import spelt_out
from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import Label
from actbox.sandbox.blocking import run_blocking

from .approval_questions import MOST_FITTED, Approval, as_approved, coverage
from .approval_view import Part, parts
from .approvals import Approvals

COOKIE: Final = "actbox_approver"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]", "::1")
_LEAST_TOKEN: Final = 16
_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: .5rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top; }
td, th, li { overflow-wrap: anywhere; }
button { font: inherit; padding: .4rem 1rem; } .add { color: #1a7f37; } .del { color: #cf222e; }
input[type=text] { font: inherit; width: 100%; box-sizing: border-box; }
fieldset { border: 1px solid #8884; border-radius: .5rem; }
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none';"
        " base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def new_token() -> str:
    """Return a token for `app`."""
    return secrets.token_urlsafe(24)


def page_path(token: str) -> str:
    """Return the path below which `app` has its pages for a token, with slashes at both ends.

    A browser sends a cookie to every port of a host. It sends this one to nobody who does not know the path, such as
    a program that serves on another port.
    """
    return f"/{_derived(token, 'path')[:16]}/"


def entrance(base: str, token: str) -> str:
    """Return the address that lets an approver in, for a page at `base` such as `http://127.0.0.1:8300`."""
    return f"{base.rstrip('/')}{page_path(token)}?token={quote(token)}"


def app(
    approvals: Approvals,
    token: str = "",
    *,
    who: Callable[[Request], str] | None = None,
    hosts: Iterable[str] | None = None,
    cleared: Label | str | None = None,
) -> Starlette:
    """Return the page of some approvals, for whoever has the token, or for those whom a service knows.

    With `token` the pages are below `page_path(token)`, and approvers type who they are. With `who` the pages are at
    the root, for requests of which `who` returns a name: that is then who has answered; "" is nobody. `hosts` are the
    names by which the page may be asked, any for `None` with `who`, and those of loopback with a token.

    `cleared` is the highest label of questions whose arguments are shown, `None` for any. A question above it can be
    denied there, and not approved. Raises `InvalidValue`.
    """
    if bool(token) == (who is not None) or (token and len(token) < _LEAST_TOKEN):
        raise InvalidValue(f"the approvers' page takes a token of at least {_LEAST_TOKEN} characters, or `who`")
    page = _Page(approvals, token, who, None if cleared is None else Label(cleared))
    routes: list[Route | Mount] = [
        Route("/", page.guarded(page.all)),
        Route("/{id}", page.guarded(page.one)),
        *(
            Route(f"/{{id}}/{verb}", page.guarded(page.answering(verb)), methods=["POST"])
            for verb in ("approve", "deny", "revoke")
        ),
    ]
    if token:
        routes = [Mount(page_path(token).rstrip("/"), routes=routes)]
    allowed = list(LOOPBACK if token else ["*"]) if hosts is None else list(hosts)
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=allowed)])


_View = Callable[[Request], Awaitable[Response]]


class _Page:
    def __init__(
        self, approvals: Approvals, token: str, who: Callable[[Request], str] | None, cleared: Label | None
    ) -> None:
        self._approvals = approvals
        self._token = token
        self._who = who
        self._cleared = cleared
        self._secret = token or new_token()

    def guarded(self, view: _View) -> _View:
        """Return a view for approvers alone: a token is in the address once, and then its digest in a cookie."""

        async def checked(request: Request) -> Response:
            if self._who is None:
                cookie = _derived(self._token, "cookie")
                if _is_same(request.query_params.get("token", ""), self._token):
                    answer: Response = RedirectResponse(_at(request, ""), 303, _HEADERS)
                    how: dict[str, Any] = {"path": _at(request, ""), "secure": request.url.scheme == "https"}
                    answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", **how)
                    return answer
                is_known = _is_same(request.cookies.get(COOKIE, ""), cookie)
            else:
                is_known = bool(self._who(request))
            if not is_known:
                return PlainTextResponse("open the address that `actbox approvals serve` prints", 403, _HEADERS)
            try:
                return await view(request)
            except ActboxError as error:
                return self._shown("Not possible", f"<p>{_text(str(error))}</p>", request, status=409)

        return checked

    async def all(self, request: Request) -> Response:
        rows = "".join(
            f'<tr><td><a href="{_at(request, one.id)}">{_text(one.capability)}</a></td><td>{_text(one.caller)}</td>'
            f"<td>{_text(str(one.labels))}</td><td>{_text(self._reason(one))}</td></tr>"
            for one in await self._approvals.list("pending")
        )
        head = "<tr><th>capability<th>caller<th>data<th>why</tr>"
        standing = "".join(
            f'<li><a href="{_at(request, one.id)}">{_text(one.capability)}</a> ({_text(one.scope)}),'
            f" by {_text(one.decided_by)}</li>"
            for one in await self._approvals.list("approved")
            if one.scope != "once"
        )
        body = f"<table>{head}{rows}</table>" if rows else "<p>Nothing waits.</p>"
        body += f"<h2>Approvals for more than one call</h2><ul>{standing}</ul>" if standing else ""
        return self._shown("Questions", body, request)

    async def one(self, request: Request) -> Response:
        found = await self._approvals.find(request.path_params["id"])
        about = {
            "capability": f"{found.capability} {found.version}",
            "state": found.state + (f" ({found.scope})" if found.scope else ""),
            "caller": found.caller,
            "run": found.run,
            "data": str(found.labels),
            "answered by": f"{found.decided_by}, {found.decided_from}" if found.decided_by else "",
            "reason": found.reason,
            "trouble": found.trouble,
        }
        rows = "".join(f"<tr><th>{name}</th><td>{_text(value)}</td></tr>" for name, value in about.items() if value)
        body = f"<table>{rows}</table>"
        if self._is_cleared(found):
            if found.scope not in ("", "once"):
                body += f"<p>It covers</p><ul>{_items(coverage(found, _until(found)))}</ul>"
            body += "".join(map(_part, await run_blocking(parts, found)))
        else:
            body += f"<p>This page shows data up to {_text(str(self._cleared))}.</p>"
        return self._shown(found.capability, body + self._form(found, request), request)

    def answering(self, verb: str) -> _View:
        """Return the view that takes the form with an answer."""

        async def answer(request: Request) -> Response:
            form = {name: str(value) for name, value in (await request.form()).multi_items()}
            if not _is_same(form.get("form", ""), self._form_key(request)):
                return PlainTextResponse("the form is not this page's", 403, _HEADERS)
            id, by = request.path_params["id"], self._name(request) or form.get("by", "").strip()
            source = f"page, from {request.client.host if request.client else 'unknown'}"
            how: dict[str, Any] = {"by": by, "reason": form.get("reason", ""), "source": source}
            if verb == "deny":
                await self._approvals.deny(id, **how)
            elif verb == "revoke":
                await self._approvals.revoke(id, **how)
            else:
                asked = await self._approvals.find(id)
                if not self._is_cleared(asked):
                    raise InvalidValue("nobody can approve here: the page does not show what it is about")
                scope: Any = form.get("scope", "once")  # checked in the next line but one
                hours = _hours(form.get("hours", ""))
                given = as_approved(asked, scope, _patterns(form) if scope == "pattern" else {})
                if scope != "once" and "sure" not in form:
                    return await self._sure(given, form, hours, request)
                until = None if hours is None or scope == "once" else time.time() + hours * 3600
                await self._approvals.approve(id, scope=scope, pattern=given.pattern, until=until, **how)
            return RedirectResponse(_at(request, ""), 303, _HEADERS)

        return answer

    async def _sure(self, given: Approval, form: Mapping[str, str], hours: float | None, request: Request) -> Response:
        """Return the page that shows what an approval for more than one call would cover, and asks once more."""
        lines = coverage(given, "" if hours is None else f"for {hours:g} hours")
        body = _items(lines)
        if others := await self._approvals.also_covered(given):
            also = ", ".join(f'<a href="{_at(request, one.id)}">{one.id}</a>' for one in others)
            body += f"<li>and so also {len(others)} more that wait: {also}</li>"
        kept = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in {**form, "sure": "yes"}.items()
        )
        body = f"""<p>This approves</p><ul>{body}</ul><form method="post" action="{_at(request, given.id)}/approve">
{kept}<button id="sure">Approve all this</button></form>"""
        return self._shown("Are you sure?", body, request)

    def _form(self, found: Approval, request: Request) -> str:
        at = _at(request, found.id)
        if found.state in ("approved", "used"):
            return f"""<form method="post" action="{at}/revoke"><fieldset><legend>Take it back?</legend>
{self._fields(request)}<button id="revoke">Revoke</button></fieldset></form>"""
        if found.state != "pending":
            return ""
        approve = self._choices(found) if self._is_cleared(found) else ""
        return f"""<form method="post" action="{at}/approve"><fieldset><legend>May it?</legend>
{self._fields(request)}{approve}<button id="deny" formaction="{at}/deny">Deny</button></fieldset></form>"""

    def _fields(self, request: Request) -> str:
        """Return the fields of every answer: the form's key, and who and why."""
        by = '<label>Who you are <input type="text" name="by" required></label>'
        if name := self._name(request):
            by = f"You are {_text(name)}."
        return f"""<input type="hidden" name="form" value="{self._form_key(request)}"><p>{by}</p>
<p><label>Why <input type="text" name="reason"></label></p>"""

    def _choices(self, found: Approval) -> str:
        """Return the fields that say which calls an approval covers."""
        patterns = "".join(
            f'<p><label>Pattern for {_text(name)} <input type="text" name="pattern {html.escape(name)}"></label></p>'
            for name, value in found.arguments.items()
            if isinstance(value, str) and len(value) <= MOST_FITTED
        )
        scopes = {
            "once": "this once",
            **({"run": "the same again in this run"} if found.run else {}),
            "always": "the same again, always",
            **({"pattern": "all that fits the patterns"} if patterns else {}),
        }
        chosen = " ".join(
            f'<label><input type="radio" name="scope" value="{scope}"{" checked" if scope == "once" else ""}>'
            f" {words}</label>"
            for scope, words in scopes.items()
        )
        if patterns:
            note = "* and ? are any text and any character without / \\ ? # @ : %, and ** is any text at all."
            patterns = f"<details><summary>Patterns</summary>{patterns}<p>An argument without one must be the same. "
            patterns += f"{note}</p></details>"
        return f"""<p>{chosen}</p>{patterns}
<p><label>If for more than once: for how many hours <input type="text" name="hours" inputmode="decimal"></label></p>
<button id="approve">Approve</button> """

    def _name(self, request: Request) -> str:
        return "" if self._who is None else self._who(request)

    def _form_key(self, request: Request) -> str:
        """Return a value that only this page's forms have, for each approver another."""
        return _derived(self._secret, f"form {self._name(request)}")

    def _is_cleared(self, one: Approval) -> bool:
        return self._cleared is None or one.labels <= self._cleared

    def _reason(self, one: Approval) -> str:
        return str(one.shown["reason"]) if self._is_cleared(one) else ""

    def _shown(self, title: str, body: str, request: Request, status: int = 200) -> Response:
        text = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style>'
            f'<p><a href="{_at(request, "")}">All questions</a></p><h1>{_text(title)}</h1>{body}</html>'
        )
        return HTMLResponse(text, status, _HEADERS)


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{_text(line)}</li>" for line in lines)


def _until(one: Approval) -> str:
    when = "" if one.expires is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(one.expires / 1_000_000))
    return when and f"until {when}"


def _part(part: Part) -> str:
    return f"<h2>{_text(part.title)}</h2><pre>{chr(10).join(_line(line, part.difference) for line in part.lines)}</pre>"


def _line(line: str, difference: bool) -> str:
    kind = {"+": "add", "-": "del"}.get(line[:1], "") if difference else ""
    return f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line)


def _patterns(form: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("pattern "): one for name, one in form.items() if name.startswith("pattern ") and one}


def _hours(text: str) -> float | None:
    try:
        hours = float(text) if text.strip() else None
    except ValueError:
        hours = -1
    if hours is not None and not 0 < hours < 1e6:
        raise InvalidValue("the hours are a number above 0, or nothing")
    return hours


def _text(text: str) -> str:
    """Return one line of text as HTML, with all that is invisible or turns the writing spelt out."""
    return html.escape(spelt_out(text))


def _at(request: Request, path: str) -> str:
    return f"{request.scope.get('root_path', '')}/{quote(path)}"


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())
