"""What Node's own `fetch` and `https` reach: the policy's domains, through the sandbox's proxy, and nothing else."""

from __future__ import annotations

import ssl

import pytest

import actbox
from actbox import AllowedDomain, ExecutionResult, NetworkRequest, Policy, Sandbox, Secret
from actbox.sandbox.egress.upstream import Upstream
from tests.sandbox.egress.conftest import Net, net, no_proxy_of_this_machine, public_authority  # noqa: F401
from tests.sandbox.egress.hosts import Asked, response

pytestmark = pytest.mark.usefixtures("node_works")

VALUE = "s3cr3t-of-the-host-41"
_OVER_HTTPS = """
const https = require("node:https");
await new Promise((done, failed) => https.get(TARGET, (answer) => {
  answer.on("data", (piece) => console.log(String(piece))).on("end", done);
}).on("error", failed));
"""


async def run(box: Sandbox, code: str, url: str) -> tuple[ExecutionResult, list[NetworkRequest]]:
    events = [event async for event in box.stream(f"const TARGET = {url!r};{code}", timeout=50)]
    told = [event for event in events if isinstance(event, NetworkRequest)]
    return events[-1].result, told  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("tls", [False, True])
async def test_fetch_reaches_an_allowed_host_with_its_secret_and_only_with_its_methods(
    net: Net,  # noqa: F811
    tls: bool,
) -> None:
    def answer(asked: Asked) -> bytes:
        return response(", ".join(asked.values("authorization")).encode() + b" " + asked.body)

    host = await net.host("api.example", tls=tls, answer=answer)
    other = await net.host("other.example")
    trusted = ssl.create_default_context(cadata=net.authority.pem.decode())
    policy = Policy(
        domains=[AllowedDomain(host.url, ["GET", "POST"], private=True)], secrets=[Secret("key", VALUE, [host.url])]
    )
    async with actbox.open_sandbox("node", policy=policy, upstream=Upstream(resolve=net._resolve, tls=trusted)) as box:
        posting = "const answer = await fetch(TARGET, {method: 'POST', body: 'mine'}); await answer.text()"
        result, told = await run(box, posting, host.url)
        assert result.success, result.error
        assert result.value.endswith(" mine") and VALUE not in result.value
        assert [(event.host, event.method, event.decision) for event in told] == [("api.example", "POST", "allowed")]
        assert VALUE in str(host.asked[0].values("authorization")) and host.asked[0].body == b"mine"

        deleting = "(await fetch(TARGET, {method: 'DELETE'})).status"
        result, told = await run(box, deleting, host.url)
        assert (result.value, [event.decision for event in told]) == (403, ["refused"])
        assert len(host.asked) == 1
        if tls:
            result, _ = await run(box, _OVER_HTTPS, host.url)
            assert result.success, result.error

        result, _ = await run(box, "(await fetch(TARGET)).status", other.url)
        assert result.value == 403 or (result.error is not None and result.error.type == "TypeError")
        assert not other.asked


@pytest.mark.slow
@pytest.mark.parametrize("code", ["await fetch(TARGET)", _OVER_HTTPS], ids=["fetch", "https"])
async def test_an_https_request_that_the_policy_refuses_says_so(code: str) -> None:
    async with actbox.open_sandbox("node", policy=Policy(domains=[AllowedDomain("x.example")])) as box:
        result, told = await run(box, code, "https://other.example/")
        assert result.error is not None
        assert (result.error.kind.value, [event.decision for event in told]) == ("NETWORK", ["refused"])
        refused = "Refused by the network policy: https://other.example is not allowed. Allowed: x.example."
        assert result.error.hint == refused

        result, _ = await run(box, code, "https://other.example:8443/")  # to which no proxy listens
        assert result.error is not None
        assert (result.error.kind.value, "that the policy allows" in result.error.hint) == ("NETWORK", True)
