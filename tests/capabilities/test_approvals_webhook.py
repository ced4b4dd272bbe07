"""The webhook about new questions: what is sent, how it is signed, and what happens where it fails."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from actbox.capabilities.approval_webhook import Webhook, new_secret, signature
from actbox.capabilities.approvals import Approval, Approvals, Question
from actbox.core.errors import InvalidValue
from actbox.core.labels import Label
from tests.waiting import until

SECRET = new_secret()
ASKED = Question(
    capability="files.write",
    version="1.0.0",
    arguments={"text": "private"},
    labels=Label("pii.email"),
    caller="agent-1",
    reason="a private reason",
)


class Service(ThreadingHTTPServer):
    """A service that takes webhooks: it answers with the statuses of `answers`, then with 204."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[int] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.taken.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", self.server.url)
        self.end_headers()

    def log_message(self, *about: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as opened:
        threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield opened
        opened.shutdown()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/approvals.db"


async def told(address: str, webhook: Webhook, is_done: Any) -> Approval:
    """Ask, wait until the webhook has done its work, answer, and return the question as it was then."""
    approvals = Approvals.open(address, notify=[webhook])
    answer = asyncio.ensure_future(approvals.require(ASKED))

    async def has_done() -> bool:
        return bool(is_done(await approvals.list("pending")))

    await until(has_done)
    [found] = await approvals.list("pending")
    await approvals.approve(found.id, by="ann")
    assert (await answer).approved
    approvals.close()
    return found


def has_trouble(waiting: tuple[Approval, ...]) -> bool:
    return bool(waiting and waiting[0].trouble)


async def test_a_question_is_sent_with_its_address_and_no_data_and_signed(address: str, service: Service) -> None:
    webhook = Webhook(service.url, secret=SECRET, page="http://127.0.0.1:8300/abc/")
    found = await told(address, webhook, lambda waiting: service.taken)
    [(headers, body)] = service.taken
    data = json.loads(body)["data"]
    assert data == {
        "id": found.id,
        "capability": "files.write",
        "version": "1.0.0",
        "labels": "pii.email",
        "page": f"http://127.0.0.1:8300/abc/{found.id}",
    }
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    assert headers["webhook-id"] == found.id
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()


def test_the_signature_is_that_of_standard_webhooks() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


@pytest.mark.parametrize(("cleared", "is_sent"), [("pii", True), ("internal", False), (None, False)])
async def test_arguments_are_sent_to_whom_they_are_cleared(
    cleared: str | None, is_sent: bool, address: str, service: Service
) -> None:
    await told(address, Webhook(service.url, secret=SECRET, cleared=cleared), lambda waiting: service.taken)
    [(_, body)] = service.taken
    assert (b"private" in body) == is_sent


async def test_what_fails_is_sent_again_under_the_same_identity(address: str, service: Service) -> None:
    service.answers = [500, 429, 503]
    await told(address, Webhook(service.url, secret=SECRET, delays=[0, 0, 0]), lambda waiting: len(service.taken) == 4)
    assert len({headers["webhook-id"] for headers, _ in service.taken}) == 1


@pytest.mark.parametrize(
    ("answers", "attempts", "why"), [([500] * 3, 3, "3 attempts: status 500"), ([307], 1, "307"), ([401], 1, "401")]
)
async def test_a_failure_that_stays_is_logged_and_kept_and_the_question_goes_on(
    answers: list[int], attempts: int, why: str, address: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers = answers
    found = await told(address, Webhook(service.url, secret=SECRET, delays=[0, 0]), has_trouble)
    assert len(service.taken) == attempts
    assert why in found.trouble and why in caplog.text and SECRET not in found.trouble + caplog.text


async def test_a_service_that_is_gone_is_a_failure_too(address: str, service: Service) -> None:
    url = service.url
    service.server_close()
    found = await told(address, Webhook(url, secret=SECRET, delays=[]), has_trouble)
    assert "ConnectError" in found.trouble


@pytest.mark.parametrize(
    ("url", "secret", "why"),
    [
        ("http://example.com/", SECRET, "https://"),
        ("ftp://127.0.0.1/", SECRET, "https://"),
        ("https://example.com/", "whsec_c2hvcnQ=", "at least 24 bytes"),
        ("https://example.com/", "no base64", "at least 24 bytes"),
    ],
    ids=["no TLS", "another scheme", "a short secret", "no base64"],
)
def test_a_webhook_that_could_not_be_trusted_is_refused(url: str, secret: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        Webhook(url, secret=secret)
