"""A small web page for approvers: the questions that wait, all that each is about, and two buttons.

`app` is a Starlette application, whose routes a larger service can mount. Whoever has the token may answer.
"""

from __future__ import annotations

import hmac
import html
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from difflib import unified_diff
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from actbox.content.safe_text import spelt_out
from actbox.core.errors import ActboxError

from .approvals import Approval, Approvals

COOKIE: Final = "actbox_approver"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]", "::1")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self';"
    " frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884; border-radius: .5rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top; }
button { font: inherit; padding: .4rem 1rem; } .add { color: #1a7f37; } .del { color: #cf222e; }
input[type=text] { font: inherit; width: 100%; } fieldset { border: 1px solid #8884; border-radius: .5rem; }
"""


def new_token() -> str:
    """Return a token for `app`."""
    return secrets.token_urlsafe(24)


def app(approvals: Approvals, token: str, *, hosts: tuple[str, ...] = LOOPBACK) -> Starlette:
    """Return the page of some approvals, for whoever has the token. `hosts` are the names by which it may be asked."""
    page = _Page(approvals, token)
    routes = [
        Route("/", page.guarded(page.all)),
        Route("/{id}", page.guarded(page.one)),
        Route("/{id}/approve", page.guarded(page.answer), methods=["POST"]),
        Route("/{id}/deny", page.guarded(page.answer), methods=["POST"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))])


class _Page:
    def __init__(self, approvals: Approvals, token: str) -> None:
        self._approvals = approvals
        self._token = token

    def guarded(self, view: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Return a view for whoever has the token: in the address once, and then in a cookie."""

        async def checked(request: Request) -> Response:
            given = request.query_params.get("token")
            if given is not None and self._is_token(given):
                answer: Response = RedirectResponse(request.url.remove_query_params("token"), 303)
                answer.set_cookie(
                    COOKIE, self._token, httponly=True, samesite="strict", path=request.scope["root_path"] or "/"
                )
                return answer
            if not self._is_token(request.cookies.get(COOKIE, "")):
                return PlainTextResponse("open the address that `actbox approvals serve` prints", 403, _HEADERS)
            try:
                return await view(request)
            except ActboxError as error:
                return self._shown("Not possible", f"<p>{html.escape(str(error))}</p>", request, status=409)

        return checked

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    async def all(self, request: Request) -> Response:
        waiting = await self._approvals.list("pending")
        rows = "".join(
            f'<tr><td><a href="{_at(request, one.id)}">{_text(one.capability)}</a></td><td>{_text(one.caller)}</td>'
            f"<td>{_text(str(one.labels))}</td><td>{_text(str(one.shown.get('reason', '')))}</td></tr>"
            for one in waiting
        )
        table = (
            f"<table><tr><th>capability<th>caller<th>data<th>why</tr>{rows}</table>"
            if rows
            else "<p>Nothing waits.</p>"
        )
        return self._shown("Questions", table, request)

    async def one(self, request: Request) -> Response:
        found = await self._approvals.find(request.path_params["id"])
        about = {
            "capability": f"{found.capability} {found.version}",
            "state": found.state,
            "caller": found.caller,
            "run": found.run,
            "data": str(found.labels),
        }
        rows = "".join(f"<tr><th>{name}</th><td>{_text(value)}</td></tr>" for name, value in about.items() if value)
        parts = [f"<table>{rows}</table>", *(_part(name, value) for name, value in found.shown.items())]
        if found.state == "pending":
            parts.append(self._form(found, request))
        return self._shown(found.capability, "".join(parts), request)

    async def answer(self, request: Request) -> Response:
        form, id = await request.form(), request.path_params["id"]
        if not self._is_token(str(form.get("token", ""))):
            return PlainTextResponse("the form is not this page's", 403, _HEADERS)
        by, reason = str(form.get("by", "")).strip(), str(form.get("reason", ""))
        source = f"page, from {request.client.host if request.client else 'unknown'}"
        if not by:
            return self._shown("Not possible", "<p>Say who you are.</p>", request, status=400)
        if request.url.path.endswith("/deny"):
            await self._approvals.deny(id, by=by, reason=reason, source=source)
        else:
            scope: Any = form.get("scope", "once")
            await self._approvals.approve(id, by=by, scope=scope, reason=reason, source=source)
        return RedirectResponse(_at(request, ""), 303)

    def _form(self, found: Approval, request: Request) -> str:
        at = _at(request, found.id)
        fields = f"""<form method="post" action="{at}/approve"><fieldset><legend>May it?</legend>
<input type="hidden" name="token" value="{html.escape(self._token)}">
<p><label>Who you are <input type="text" name="by" required></label></p>
<p><label>Why <input type="text" name="reason"></label></p>
<p><label><input type="radio" name="scope" value="once" checked> this once</label>
<label><input type="radio" name="scope" value="run"> the same again in this run</label>
<label><input type="radio" name="scope" value="always"> the same again, always</label></p>
<button>Approve</button> <button formaction="{at}/deny">Deny</button></fieldset></form>"""
        return fields

    def _shown(self, title: str, body: str, request: Request, status: int = 200) -> Response:
        text = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style>'
            f'<p><a href="{_at(request, "")}">All questions</a></p><h1>{_text(title)}</h1>{body}</html>'
        )
        return HTMLResponse(text, status, _HEADERS)


def _part(name: str, value: Any) -> str:
    """Return one thing that an approver is shown: text as it is, files as their difference, the rest as JSON."""
    if name == "files" and isinstance(value, Mapping):
        return "".join(f"<h2>{_text(path)}</h2>{_difference(one)}" for path, one in value.items())
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return f"<h2>{_text(name)}</h2><pre>{_lines(text)}</pre>" if text else ""


def _difference(change: Any) -> str:
    if not isinstance(change, Mapping):
        return f"<pre>{_lines(str(change))}</pre>"
    before, after = (str(change.get(name) or "").splitlines() for name in ("before", "after"))
    lines = []
    for line in unified_diff(before, after, "before", "after", lineterm=""):
        kind = {"+": "add", "-": "del"}.get(line[:1], "")
        lines.append(f'<span class="{kind}">{_text(line)}</span>')
    return f"<pre>{chr(10).join(lines)}</pre>"


def _lines(text: str) -> str:
    return "\n".join(map(_text, text.splitlines()))


def _text(text: str) -> str:
    """Return one line of text as HTML, with all that is invisible or turns the writing spelt out."""
    return html.escape(spelt_out(text))


def _at(request: Request, path: str) -> str:
    return f"{request.scope.get('root_path', '')}/{quote(path)}"
