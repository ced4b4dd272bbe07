"""The approvers' page: who is let in, what is shown, and what an answer does; also in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from actbox.capabilities.approval_page import app, entrance, page_path
from actbox.capabilities.approvals import Approval, Approvals, Question
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from tests.content.browser import CHROMIUM, MISSING, Browser

TOKEN = "a-token-for-tests-alone"
CODE = "import os\ncall_tool('search', query='tea')\nos.system('ls')  # \u202eharmless\n"
ASKED = Question(
    capability="execute.python",
    version="1.0.0",
    arguments={"code": CODE, "path": "reports/a.txt", "mark": "<script>alert(1)</script>"},
    labels=Label("pii.email"),
    caller="agent-1",
    run="r1",
    reason="it needs the approval compute",
    shown={"files": {"notes.txt": {"before": "one\ntwo\n", "after": "one\nthree\n"}}},
)


@pytest.fixture
async def approvals(tmp_path: Path) -> AsyncIterator[Approvals]:
    opened = Approvals.open(f"sqlite:///{tmp_path}/approvals.db")
    yield opened
    opened.close()


async def asked(approvals: Approvals, question: Question = ASKED) -> tuple[asyncio.Future[Any], Approval]:
    known = {one.id for one in await approvals.list()}
    answer = asyncio.ensure_future(approvals.require(question))
    while not (new := [one for one in await approvals.list("pending") if one.id not in known]):
        await asyncio.sleep(0)
    return answer, new[0]


def client(page: Starlette, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(page), base_url="http://127.0.0.1", **more)


@contextlib.asynccontextmanager
async def let_in(approvals: Approvals, **how: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client that has opened the address with the token, and so has the cookie."""
    async with client(app(approvals, TOKEN, **how)) as opened:
        found = await opened.get(entrance("http://127.0.0.1", TOKEN))
        assert found.status_code == 303 and found.headers["location"] == page_path(TOKEN)
        yield opened


async def withdraw(answer: asyncio.Future[Any]) -> None:
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)


def form_of(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', page)
    return {unescape(name): unescape(value) for name, value in found}


async def test_nobody_is_let_in_without_the_token(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    at = page_path(TOKEN)
    async with client(app(approvals, TOKEN)) as stranger:
        for path in (at, f"{at}{waiting.id}", f"{at}?token=wrong", f"{at}?token="):
            assert (await stranger.get(path)).status_code == 403
        assert (await stranger.get("/")).status_code == 404
        stranger.cookies.set("actbox_approver", TOKEN)  # the cookie is not the token
        assert (await stranger.post(f"{at}{waiting.id}/approve", data={"by": "x"})).status_code == 403
    async with let_in(approvals) as known:
        cookie = next(iter(known.cookies.jar))
        assert cookie.path == at and cookie.has_nonstandard_attr("HttpOnly") and cookie.value != TOKEN
        assert cookie.get_nonstandard_attr("SameSite") == "strict"
        assert (await known.get(at)).status_code == 200
        assert (await known.get(at, headers={"host": "rebound.example"})).status_code == 400
        forged = await known.post(f"{at}{waiting.id}/approve", data={"by": "x", "form": "forged"})
        assert forged.status_code == 403
    assert (await approvals.find(waiting.id)).state == "pending"
    await withdraw(answer)


async def test_all_that_is_asked_is_shown_and_nothing_of_it_acts(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    async with let_in(approvals) as known:
        page = await known.get(page_path(TOKEN) + waiting.id)
    text = page.text
    for part in (
        "agent-1",
        "pii.email",
        "it needs the approval compute",
        "2  call_tool(&#x27;search&#x27;",
        "line 2: search(query=&#x27;tea&#x27;)",
        "line 3: ",
        "\\u202eharmless",
        '<span class="del">-two</span>',
        '<span class="add">+three</span>',
        "&lt;script&gt;",
    ):
        assert part in text
    assert "<script" not in text and "\u202e" not in text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    await withdraw(answer)


async def test_an_approver_answers_and_takes_it_back(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    at = page_path(TOKEN) + waiting.id
    async with let_in(approvals) as known:
        form = form_of((await known.get(at)).text)
        assert (await known.post(f"{at}/approve", data={**form, "by": " "})).status_code == 409
        done = await known.post(f"{at}/approve", data={**form, "by": "ann", "reason": "fine", "scope": "once"})
        assert done.status_code == 303
        given = await answer
        assert (given.approved, given.by, given.reason) == (True, "ann", "fine")
        assert (await approvals.find(waiting.id)).decided_from.startswith("page, from ")
        late = await known.post(f"{at}/deny", data={**form, "by": "bob"})
        assert late.status_code == 409 and "already by ann" in late.text
        form = form_of((await known.get(at)).text)
        assert (await known.post(f"{at}/revoke", data={**form, "by": "ann"})).status_code == 303
    assert await approvals.is_revoked(waiting.id)


async def test_an_approver_sees_what_a_pattern_would_cover_before_it_does(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    other_answer, other = await asked(approvals, replace(ASKED, arguments={**ASKED.arguments, "path": "reports/b.txt"}))
    at = page_path(TOKEN) + waiting.id
    async with let_in(approvals) as known:
        form = form_of((await known.get(at)).text)
        form |= {"by": "ann", "scope": "pattern", "pattern path": "reports/*.txt", "hours": "8"}
        page = (await known.post(f"{at}/approve", data=form)).text
        assert (await approvals.find(waiting.id)).state == "pending"
        for words in ("any text that fits reports/*.txt", "in any run", "for 8 hours", "pii.email", other.id):
            assert words in page
        assert (await known.post(f"{at}/approve", data={**form, "hours": "-1"})).status_code == 409
        assert (await known.post(f"{at}/approve", data=form_of(page))).status_code == 303
        given = (await known.get(at)).text
        assert "any text that fits reports/*.txt" in given and "until 20" in given and 'id="revoke"' in given
    assert [one.approved for one in await asyncio.gather(answer, other_answer)] == [True, True]
    found = await approvals.find(waiting.id)
    assert found.pattern == {"path": "reports/*.txt"} and found.expires is not None
    assert abs(found.expires / 1_000_000 - time.time() - 8 * 3600) < 3600


async def test_a_page_that_is_not_cleared_shows_no_data_and_approves_nothing(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    at = page_path(TOKEN) + waiting.id
    async with let_in(approvals, cleared="internal") as known:
        page = (await known.get(at)).text
        for secret in ("call_tool", "reports/a.txt", "three", "needs the approval"):
            assert secret not in page and secret not in (await known.get(page_path(TOKEN))).text
        assert "execute.python" in page and "pii.email" in page and 'id="approve"' not in page
        form = form_of(page)
        refused = await known.post(f"{at}/approve", data={**form, "by": "ann"})
        assert refused.status_code == 409 and (await approvals.find(waiting.id)).state == "pending"
        assert (await known.post(f"{at}/deny", data={**form, "by": "ann"})).status_code == 303
    assert not (await answer).approved


async def test_a_service_mounts_the_page_and_says_who_answers(approvals: Approvals) -> None:
    answer, waiting = await asked(approvals)
    page = app(approvals, who=lambda request: request.headers.get("x-user", ""))
    service = Starlette(routes=[Mount("/approvals", page)])
    async with client(service) as user:
        assert (await user.get("/approvals/")).status_code == 403
        ann, bob = {"x-user": "ann"}, {"x-user": "bob"}
        at = f"/approvals/{waiting.id}"
        form = form_of((await user.get(at, headers=ann)).text)
        assert (await user.post(f"{at}/approve", data=form, headers=bob)).status_code == 403
        done = await user.post(f"{at}/approve", data={**form, "by": "somebody else"}, headers=ann)
        assert done.status_code == 303 and done.headers["location"] == "/approvals/"
    assert (await answer).by == "ann"
    for wrong in ({}, {"token": "short"}, {"token": TOKEN, "who": str}):
        with pytest.raises(InvalidValue, match="a token of at least"):
            app(approvals, **wrong)


class _Served:
    """The page on a real port, in a thread of its own."""

    def __init__(self, address: str) -> None:
        self._approvals = Approvals.open(address)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.entrance = entrance(f"http://127.0.0.1:{self._socket.getsockname()[1]}", TOKEN)
        self._server = uvicorn.Server(uvicorn.Config(app(self._approvals, TOKEN), log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> _Served:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._approvals.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.mark.engines
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
async def test_a_person_approves_in_a_browser(approvals: Approvals, browser: Browser, tmp_path: Path) -> None:
    answer, waiting = await asked(approvals)
    other_answer, other = await asked(approvals, replace(ASKED, arguments={**ASKED.arguments, "mark": "b"}))

    def act(address: str) -> None:
        seen = browser.visit(address)
        assert "token" not in seen.evaluate("location.href") and seen.evaluate("document.cookie") == ""
        seen.click(f'a[href$="{waiting.id}"]')
        text = seen.evaluate("document.body.innerText")
        for part in ("line 2: search(query='tea')", "+three", "-two", "<script>alert(1)</script>", "os.system"):
            assert part in text
        color = "getComputedStyle(document.querySelector('.add')).color"
        assert seen.evaluate(color) == "rgb(26, 127, 55)"  # so the style is not refused
        seen.evaluate("document.querySelector('[name=by]').value = 'ann'")
        seen.click("#approve")
        seen.click(f'a[href$="{other.id}"]')
        seen.evaluate(
            "document.querySelector('[name=by]').value = 'ann';"
            "document.querySelector('[value=pattern]').checked = true;"
            "document.querySelector('[name=\"pattern path\"]').value = 'reports/*'"
        )
        seen.click("#approve")
        assert "any text that fits reports/*" in seen.evaluate("document.body.innerText")
        seen.click("#sure")
        assert "Nothing waits" in seen.evaluate("document.body.innerText")
        assert seen.complaints == []
        base = address.partition("?")[0]
        assert all(url.startswith(base) for url in seen.requests), seen.requests

    with _Served(f"sqlite:///{tmp_path}/approvals.db") as served:
        await asyncio.to_thread(act, served.entrance)
    assert [one.by for one in await asyncio.gather(answer, other_answer)] == ["ann", "ann"]
    assert (await approvals.find(other.id)).pattern == {"path": "reports/*"}
