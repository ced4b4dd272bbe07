"""A webhook that tells a service about new questions, signed as Standard Webhooks are."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import secrets as random
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from actbox.core.errors import ActboxError, InvalidValue
from actbox.core.labels import Label

from .approval_questions import Approval

_log = logging.getLogger("actbox")

_PREFIX: Final = "whsec_"
_LEAST_SECRET: Final = 24
_SECONDS: Final = 15.0
_TRY_AGAIN: Final = frozenset((408, 425, 429))
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class WebhookFailed(ActboxError):
    """Raised where a webhook could not be delivered; the message says why."""


def new_secret() -> str:
    """Return a secret for `Webhook`, and for the service that checks its signatures."""
    return _PREFIX + base64.b64encode(random.token_bytes(32)).decode()


class Webhook:
    """A webhook for `Approvals.open(notify=[…])`: it sends each new question to a service, by POST, as JSON.

    The signature is that of Standard Webhooks (https://www.standardwebhooks.com): the headers `webhook-id`, the same
    for each attempt, `webhook-timestamp` and `webhook-signature`, a HMAC-SHA256 with the secret. An attempt that fails
    (no answer, or a status of 408, 425, 429 or 500 and above) is repeated after each of `delays`, in seconds, until the
    question is answered. A redirection is not followed, and is a failure like any other status: `Approvals` then logs
    it and keeps it with the question.

        Webhook("https://example.com/approvals", secret=new_secret(), page="http://127.0.0.1:8300/3f0c…")

    The service gets `type`, `timestamp` and as `data` the question's `id`, `capability`, `version` and `labels`, and,
    with `page`, its address below that page. The arguments, with the caller, the run and the reason, are only sent with
    `cleared`, and then of questions whose label is at most that one.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str,
        page: str = "",
        cleared: Label | str | None = None,
        delays: Sequence[float] = (1, 5, 30, 120, 600),
    ) -> None:
        """`secret` is text like that of `new_secret`. Raises `InvalidValue`, also for `http` beyond loopback."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise InvalidValue("a webhook's address begins with https://, or with http:// on loopback")
        try:
            self._key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            self._key = b""
        if len(self._key) < _LEAST_SECRET:
            raise InvalidValue(f"a webhook's secret is {_PREFIX} and Base64 of at least {_LEAST_SECRET} bytes")
        self._url = url
        self._name = f"{parts.scheme}://{parts.hostname}"
        self._page = page.rstrip("/")
        self._cleared = None if cleared is None else Label(cleared)
        self._delays = tuple(delays)

    async def __call__(self, asked: Approval) -> None:
        """Send a question. Raises `WebhookFailed` when the last attempt has failed."""
        body = json.dumps(self._content(asked)).encode()
        async with httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False, trust_env=False) as client:
            for delay in (*self._delays, None):
                if not (why := await self._sent(client, asked.id, body)):
                    return
                if delay is None:
                    raise WebhookFailed(f"{self._name} has not taken it after {len(self._delays) + 1} attempts: {why}")
                _log.warning("the webhook %s has not taken the question %s: %s", self._name, asked.id, why)
                await asyncio.sleep(delay)

    async def _sent(self, client: httpx.AsyncClient, id: str, body: bytes) -> str:
        """Return why the service has not taken it, "" if it has. Raises `WebhookFailed` where no other try helps."""
        timestamp = int(time.time())
        headers = {
            "content-type": "application/json",
            "webhook-id": id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, id, timestamp, body),
        }
        try:
            async with client.stream("POST", self._url, content=body, headers=headers) as answer:
                status = answer.status_code
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        if 200 <= status < 300:
            return ""
        if status >= 500 or status in _TRY_AGAIN:
            return f"status {status}"
        raise WebhookFailed(f"{self._name} has refused it with the status {status}")

    def _content(self, asked: Approval) -> dict[str, Any]:
        data: dict[str, Any] = {
            "id": asked.id,
            "capability": asked.capability,
            "version": asked.version,
            "labels": str(asked.labels),
        }
        if self._page:
            data["page"] = f"{self._page}/{asked.id}"
        if self._cleared is not None and asked.labels <= self._cleared:
            data |= {"arguments": asked.arguments, "caller": asked.caller, "run": asked.run}
            data["reason"] = asked.shown["reason"]
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(asked.created / 1_000_000))
        return {"type": "approval.pending", "timestamp": when, "data": data}


def signature(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` of a message, for the bytes that the secret stands for."""
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
