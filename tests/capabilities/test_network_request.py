"""`network.http_request` asks allowed hosts only, and carries the secret that it names."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from actbox import AllowedDomain, Secret
from actbox.capabilities import Label
from actbox.capabilities.network_request import MOST_SENT, http_request
from actbox.capabilities.outcome import Outcome
from actbox.capabilities.registry import Registry
from actbox.core.errors import InvalidValue
from actbox.sandbox.egress.upstream import Upstream
from tests.sandbox.egress.hosts import Asked, Host, response

VALUE = "t0ken-of-ann-77"


def answer(asked: Asked) -> bytes:
    """Return what the host answers: the request's own headers and body, a picture, or a redirect."""
    if asked.target == "/picture":
        return response(b"\x89PNG\xff")
    if asked.target.startswith("/as?"):
        return response(b"Mnchen-3ya", headers=f"Content-Type: text/plain; charset={asked.target[4:]}\r\n")
    if asked.target.startswith("/to?"):
        return response(status="302 Found", headers=f"Location: {asked.target[4:]}\r\n")
    return response(f"{asked.method} {asked.headers} {asked.body!r}".encode())


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host("api.example", None, answer)
    await host.start()
    yield host
    await host.stop()


async def resolve(name: str, port: int) -> Sequence[str]:
    """Resolve every name to this machine."""
    return ["127.0.0.1"]


def registry(*domains: AllowedDomain, secrets: Sequence[Secret] = (), **more: Any) -> Registry:
    made = http_request(domains, secrets, upstream=Upstream(resolve=resolve), **more)
    return Registry([made], granted=["network"])


def entry(host: Host, methods: Sequence[str] | None = None, **bounds: Any) -> AllowedDomain:
    return AllowedDomain(host.url, methods, private=True, **bounds)


async def ask(registry: Registry, url: str, **more: Any) -> Outcome:
    return await registry.invoke("ccos.network.http_request", {"url": url, **more})


async def test_a_request_reaches_an_allowed_host_and_its_response_has_a_label(host: Host) -> None:
    asking = registry(entry(host, label="internal"))
    done = await ask(asking, f"{host.url}/a?b=c", method="post", headers={"X-One": "1"}, body="grüße")
    assert done.ok and done.output["status"] == 200 and done.output["encoding"] == "text", done
    assert done.output["body"].startswith("POST") and "('x-one', '1')" in done.output["body"]
    assert (host.asked[0].target, host.asked[0].body) == ("/a?b=c", "grüße".encode())
    assert done.labels == Label("internal") and done.usage["egress_bytes"] == len(
        f"{host.url}/a?b=cX-One1grüße".encode()
    )
    picture = (await ask(asking, f"{host.url}/picture")).output
    assert (picture["encoding"], base64.b64decode(picture["body"])) == ("base64", b"\x89PNG\xff")


@pytest.mark.parametrize("charset", ["punycode", "PunyCode", "idna", "zlib", "no-such"])
async def test_a_response_is_decoded_by_character_sets_alone(charset: str, host: Host) -> None:
    done = await ask(registry(entry(host)), f"{host.url}/as?{charset}")
    assert done.output["body"] == "Mnchen-3ya", done


async def test_the_checks_are_those_of_the_proxy(host: Host) -> None:
    asking = registry(entry(host, ["GET"], response_bytes=1000), AllowedDomain("inner.example"))
    for url, more, kind, message in (
        ("http://other.example/", {}, "refused", "http://other.example is not allowed"),
        (host.url, {"method": "POST"}, "refused", "POST is not allowed"),
        ("http://inner.example/", {}, "refused", "an address of a private or special network"),
        (host.url, {"headers": {"X-Long": "x" * 2000}}, "refused", "1000 bytes"),
        (f"http://ann:secret@{host.place}/", {}, "invalid", "user name"),
        ("file:///etc/passwd", {}, "invalid", "no URL"),
        (host.url, {"headers": {"X": "a\r\nHost: b"}}, "invalid", "cannot be sent"),
        (host.url, {"body": "\ud800"}, "invalid", "no text"),
        (host.url, {"body": "x" * (MOST_SENT + 1)}, "invalid", "are the most"),
    ):
        done = await ask(asking, url, **more)
        assert done.error is not None and done.error.kind == kind and message in done.error.message, done.error
    assert [one.method for one in host.asked] == ["GET"]


async def test_a_rate_holds_for_all_invocations_together(host: Host) -> None:
    asking = registry(entry(host, requests_per_minute=1))
    assert (await ask(asking, host.url)).ok
    again = await ask(asking, host.url)
    assert again.error is not None and "allows 1 request a minute" in again.error.message


async def test_a_secret_goes_where_its_name_and_its_host_agree(host: Host) -> None:
    other = AllowedDomain(f"http://other.example:{host.port}", private=True)
    asking = registry(entry(host), other, secrets=[Secret("github", VALUE, [host.url])])
    done = await ask(asking, host.url, secret="github")
    assert done.ok and ("authorization", f"Bearer {VALUE}") in host.asked[0].headers
    assert VALUE not in done.output["body"] and "[secret github]" in done.output["body"]

    refused = {
        (host.url, ""): "requests to api.example carry the secret github",
        (host.url, "gitlab"): "there is no secret 'gitlab'; there are github",
        (str(other), "github"): "the secret github is sent to http://api.example",
    }
    for (url, name), message in refused.items():
        done = await ask(asking, url, **({"secret": name} if name else {}))
        assert done.error is not None and message in done.error.message, done.error
    assert len(host.asked) == 1
    assert (await ask(asking, str(other))).ok and VALUE not in str(host.asked[1].head)


async def test_a_redirect_is_a_response_unless_they_are_followed(host: Host) -> None:
    elsewhere = f"{host.url}/to?http://inner.example/"
    back = f"{host.url}/to?/end"
    plain, following = registry(entry(host)), registry(entry(host), redirects=1)
    done = await ask(plain, back)
    assert (done.output["status"], done.output["headers"]["location"]) == (302, "/end")
    done = await ask(following, back, headers={"X-One": "1"})
    assert (done.output["url"], done.output["status"]) == (f"{host.url}/end", 200) and "x-one" in done.output["body"]
    assert (await ask(following, back, method="POST")).output["status"] == 302
    assert (await ask(following, f"{host.url}/to?{back}")).output["headers"]["location"] == "/end"  # one, not two
    refused = await ask(following, elsewhere)
    assert refused.error is not None and "http://inner.example is not allowed" in refused.error.message


async def test_a_redirect_to_another_host_takes_nothing_along(host: Host) -> None:
    other = f"http://other.example:{host.port}"
    secret = Secret("github", VALUE, [host.url])
    asking = registry(entry(host), AllowedDomain(other, private=True), secrets=[secret], redirects=1)
    done = await ask(asking, f"{host.url}/to?{other}/", secret="github", headers={"X-Key": "mine"})
    assert done.ok and done.output["url"] == f"{other}/"
    assert b"x-key: mine" in host.asked[0].head and b"x-key" not in host.asked[1].head.lower()
    assert VALUE not in str(host.asked[1].head)


async def test_a_host_is_sent_what_it_is_cleared_for(host: Host) -> None:
    """A domain's clearance counts instead of the registry's, also after a redirect, and so does what was read there."""
    other = f"http://other.example:{host.port}"
    made = http_request(
        [entry(host, cleared="pii", label="internal"), AllowedDomain(other, private=True)],
        upstream=Upstream(resolve=resolve),
        redirects=1,
    )
    asking = Registry([made], granted=["network"], egress_max="public")

    async def sent(url: str, labels: str = "public") -> Outcome:
        return await asking.invoke("network.http_request", {"url": url}, labels=labels)

    assert (await sent(host.url, "pii.email")).labels == Label("pii.email", "internal")
    for done, step in (
        (await sent(host.url, "secret.key"), "label"),
        (await sent(other, "pii.email"), "label"),
        (await sent(f"{host.url}/to?{other}/", "pii.email"), "run"),
        (await sent(f"{host.url}/to?{other}/"), "run"),
    ):
        assert done.error is not None and (done.error.step, done.error.kind) == (step, "refused"), done.error
    assert done.labels == Label("internal") and "other.example is cleared up to public" in done.error.message
    assert {name for asked in host.asked for name in asked.values("host")} == {host.place}
    assert (await sent(other)).ok


async def test_nothing_asks_a_host_without_domains_or_approval(host: Host) -> None:
    done = await ask(Registry([http_request([])]), host.url)
    assert done.error is not None and done.error.message == "nothing here carries out network.http_request"
    done = await ask(Registry([http_request([entry(host)])]), host.url)
    assert done.error is not None and done.error.step == "approval"
    assert not host.asked


def test_two_secrets_of_one_place_are_refused() -> None:
    secrets = [Secret("a", VALUE, ["api.example"]), Secret("b", VALUE, ["*.example"], "X-Key: {}")]
    with pytest.raises(InvalidValue, match="a and b are for one place"):
        http_request([AllowedDomain("api.example")], secrets)
