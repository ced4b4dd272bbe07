"""`network.http_request`: HTTP requests to allowed hosts, with a secret by its name.

All checks are those of the egress proxy, which programs in sandboxes go through too: the allowed domains and their
methods, rates, sizes, times and labels; no private addresses unless an entry says so; secrets added by the proxy to
requests for their own hosts, and blotted out of every response.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from actbox.core.domains import AllowedDomain
from actbox.core.errors import InvalidValue
from actbox.core.events import NetworkRequest
from actbox.core.policy import Policy
from actbox.core.secrets import Secret
from actbox.sandbox.taint import Taint

from .budgets import Budget
from .capability import Capability, Resources
from .invocation import Invocation
from .outcome import StepFailed

if TYPE_CHECKING:
    from actbox.sandbox.egress.proxy import EgressProxy
    from actbox.sandbox.egress.upstream import Upstream

MOST_SENT: Final = 1024 * 1024
"""The most bytes of a request's body."""
MOST_RECEIVED: Final = 8 * 1024 * 1024
"""The most bytes of a response's body."""
_TIMEOUT_MS: Final = 30_000
_MOST_REDIRECTS: Final = 20
_REDIRECT: Final = (301, 302, 303, 307, 308)
_NO_TEXT: Final = re.compile("[\ufffd\ud800-\udfff]")
"""The characters that a response has once decoded if it is no text in its encoding."""
_TAKES: Final = """[:map
  [:url :string]
  [:method {:optional true} :string]
  [:headers {:optional true} [:map :string :string]]
  [:body {:optional true} :string]
  [:secret {:optional true} :string]]"""
_GIVES: Final = """[:map
  [:url :string]
  [:status :int]
  [:headers [:map :string :string]]
  [:body :string]
  [:encoding [:enum "text" "base64"]]]"""


def http_request(
    domains: Sequence[AllowedDomain],
    secrets: Sequence[Secret] = (),
    *,
    redirects: int = 0,
    upstream: Upstream | None = None,
) -> Capability:
    """Return `network.http_request` for some hosts; without any, nothing carries it out.

    `redirects` is how many redirects of a GET or HEAD are followed, each under the same rules; beyond that, and for all
    other methods, the redirect is the response. A response has the label of its domain, and a domain is sent data up to
    the label that it is cleared for (by default the registry's `egress_max`), which may have risen by a redirect.
    `upstream` is for tests, and for authorities of one's own.

    Raises `InvalidValue` as `Policy` does for its domains and secrets, and for two secrets for one place.
    """
    policy = Policy(domains=tuple(domains), secrets=tuple(secrets))
    if type(redirects) is not int or not 0 <= redirects <= _MOST_REDIRECTS:
        raise InvalidValue(f"redirects is a number from 0 to {_MOST_REDIRECTS}, not {redirects!r}")
    for one, other in combinations(policy.secrets, 2):
        if any(place.overlaps(also) for place in one.places() for also in other.places()):
            raise InvalidValue(f"the secrets {one.name} and {other.name} are for one place; give each its own")
    requests = _Requests(policy, redirects, upstream) if policy.domains else None
    return Capability(
        "network.http_request",
        "Send an HTTP request to an allowed host; requests to a host that has a secret name it in `secret`",
        _TAKES,
        _GIVES,
        effects=("network",),
        risk="medium",
        approvals=("network",),
        resources=Resources(timeout_ms=_TIMEOUT_MS),
        network=[str(domain) for domain in policy.domains],
        secrets=[secret.name for secret in policy.secrets],
        worst_case=partial(_worst_case, redirects),
        prepare=requests and requests.prepare,  # type: ignore[arg-type]  # every call is an `Invocation`
        handler=requests and requests.send,  # type: ignore[arg-type]  # likewise
    )


class _Requests:
    """The handler: one egress proxy for all invocations of an event loop, so that rates hold for all of them."""

    def __init__(self, policy: Policy, redirects: int, upstream: Upstream | None) -> None:
        self._policy = policy
        self._redirects = redirects
        self._upstream = upstream
        self._proxy: EgressProxy | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def prepare(self, call: Invocation) -> dict[str, Any]:
        """Refuse what need not be asked about. An approver is shown the input and nothing else."""
        given = call.input
        try:
            if (size := len(given.get("body", "").encode())) > MOST_SENT:
                raise _invalid(f"the body has {size:,} bytes, and {MOST_SENT:,} are the most")
        except UnicodeEncodeError as error:
            raise _invalid(f"the body is no text: {error}") from None
        call.cleared = self._entry(given["url"], given.get("secret", "")).cleared
        return {}

    async def send(self, call: Invocation) -> dict[str, Any]:
        given = call.input
        url, method = given["url"], given.get("method", "GET").upper()
        headers, body, secret = given.get("headers") or {}, given.get("body", ""), given.get("secret", "")
        taint = Taint(Policy(label=call.labels, egress_max=call.egress_max))
        for left in range(self._redirects, -1, -1):
            self._entry(url, secret)
            try:
                response = await self._response(call, taint, url, method, headers, body)
            finally:
                call.raise_label(taint.label)
            target = response["headers"].get("location")
            if not left or not target or response["status"] not in _REDIRECT or method not in ("GET", "HEAD"):
                break
            origin, url = url, urljoin(url, target)
            if urlsplit(url)[:2] != urlsplit(origin)[:2]:  # another host gets nothing that was meant for this one
                headers, body, secret = {}, "", ""
        return response

    async def _response(
        self, call: Invocation, taint: Taint, url: str, method: str, headers: Mapping[str, str], body: str
    ) -> dict[str, Any]:
        """Return the response to one request. Raises `StepFailed`."""
        from actbox.sandbox.embedded.http import Requests  # its dependencies take long to import

        def count(event: NetworkRequest) -> None:
            if event.decision == "allowed":
                call.count(egress_bytes=_size(url, headers, body))
            call.event("run", "note", f"{event.method} {event.host}: {event.status or event.reason}")

        requests = Requests(self._proxy_here(), count, MOST_RECEIVED, taint)
        try:
            found = await requests.request((url, method, dict(headers), body), {})
        except PermissionError as error:
            raise StepFailed("refused", "run", str(error)) from None
        except (TypeError, ValueError) as error:
            raise _invalid(str(error)) from None
        except OSError as error:
            raise StepFailed("failed", "run", str(error)) from None
        finally:
            requests.close()
        is_text = not _NO_TEXT.search(found["text"])
        return {
            "url": url,
            "status": found["status"],
            "headers": found["headers"],
            "body": found["text"] if is_text else base64.b64encode(found["content"]).decode(),
            "encoding": "text" if is_text else "base64",
        }

    def _entry(self, url: str, named: str) -> AllowedDomain:
        """Return the entry that allows a request. Raises `StepFailed` unless it carries exactly the secret it names."""
        from actbox.sandbox.egress.domain_rules import Rules
        from actbox.sandbox.egress.refusal_responses import Denied
        from actbox.sandbox.embedded.http import parts_of_url

        try:
            scheme, host, port, _ = parts_of_url(url)
            entry = Rules(self._policy.domains, self._policy.secrets).entry(scheme, host, port)
        except ValueError as error:
            raise _invalid(str(error)) from None
        except Denied as denied:
            raise StepFailed("refused", "run", denied.sentence) from None
        places = {secret.name: secret.domains for secret in self._policy.secrets}
        carried = [secret.name for secret in self._policy.secrets if secret.goes_to(scheme, host, port)]
        if named and named not in places:
            raise _invalid(f"there is no secret {named!r}; there are {', '.join(places) or 'none'}")
        if named and named not in carried:
            raise StepFailed("refused", "run", f"the secret {named} is sent to {', '.join(places[named])} only")
        if carried and not named:
            why = f"requests to {host} carry the secret {carried[0]}"
            raise StepFailed("refused", "run", why, f'say so: "secret": "{carried[0]}"')
        return entry

    def _proxy_here(self) -> EgressProxy:
        """Return the proxy of the running event loop."""
        from actbox.sandbox.embedded.http import make_proxy

        loop = asyncio.get_running_loop()
        if self._proxy is None or self._loop is not loop:
            self._proxy, self._loop = make_proxy(self._policy, self._upstream), loop
        return self._proxy


def _worst_case(redirects: int, capability: Capability, given: Mapping[str, Any]) -> Budget:
    size = _size(given["url"], given.get("headers") or {}, given.get("body", ""))
    return Budget(steps=1, wall_seconds=_TIMEOUT_MS / 1000, egress_bytes=size * (1 + redirects))


def _size(url: str, headers: Mapping[str, str], body: str) -> int:
    """Return the bytes of a request that its sender has chosen."""
    return len(url) + sum(len(name) + len(value) for name, value in headers.items()) + len(body.encode())


def _invalid(why: str) -> StepFailed:
    return StepFailed("invalid", "validate_input", why)
