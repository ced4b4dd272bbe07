"""Secrets: put in on the way out, to their hosts only; taken out on the way in; said nowhere."""

from __future__ import annotations

import base64
import copy
import dataclasses
import html
import json
import logging
import pickle
import re
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actbox import AllowedDomain, Policy, Secret
from actbox.sandbox.egress.redaction import Redactor, Spellings
from tests.sandbox.egress.conftest import Net
from tests.sandbox.egress.hosts import Asked, response

VALUE = 'gh+p/S3cr3t "ü"\\<&>=%'


def ways(value: str) -> dict[str, bytes]:
    raw = value.encode()
    return {
        "plain": raw,
        "percent": urllib.parse.quote(value, safe="").encode(),
        "percent lower": re.sub(rb"%..", lambda code: code[0].lower(), urllib.parse.quote(value, safe="").encode()),
        "form": urllib.parse.quote_plus(value).encode(),
        "url path": urllib.parse.quote(value).encode(),
        "json": json.dumps(value).encode(),
        "json text": json.dumps(value, ensure_ascii=False).encode(),
        "html": html.escape(value).encode(),
        "base64": base64.b64encode(raw),
        "base64 url": base64.urlsafe_b64encode(raw),
        "basic": base64.b64encode(b"user:" + raw),
        "base64 within": base64.b64encode(b"{'token': '" + raw + b"', 'more': 1}"),
        "base64 within, one on": base64.b64encode(b" {'token': '" + raw + b"', 'more': 1}"),
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
    }


def test_what_goes_over_the_fields_of_a_secret_does_not_come_by_its_value():
    secret = Secret("key", "s3cr3t-v", ["api.example"])
    policy = Policy(domains=[AllowedDomain("api.example")], secrets=[secret])
    assert "s3cr3t-v" not in repr(dataclasses.asdict(secret)) + repr(dataclasses.asdict(policy)) + repr(policy)
    for same in (copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert (same, hash(same), same.value) == (secret, hash(secret), "s3cr3t-v")
    assert secret != Secret("key", "another-one", ["api.example"])


@pytest.mark.parametrize("way", ways(VALUE))
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_echo_is_found_in_every_usual_spelling_and_over_pieces(way: str, size: int):
    spellings = Spellings([Secret("github", VALUE, ["api.example"])])
    redactor = Redactor(spellings)
    body = b"before " + ways(VALUE)[way] + b" after"
    out = b"".join(redactor.feed(body[start : start + size]) for start in range(0, len(body), size))
    out += redactor.finish()
    assert b"[secret github]" in out
    assert out.startswith(b"before ")
    assert out.endswith(b" after")
    middle = ways(VALUE)[way].strip(b'"')
    assert middle not in out
    assert spellings.redact(body) == out


@pytest.mark.slow
@settings(deadline=None)
@given(st.text("abü/+", min_size=1, max_size=6), st.lists(st.text("abü/+ ", max_size=9), max_size=6), st.data())
def test_however_a_stream_is_cut_the_value_never_comes_out(value: str, parts: list[str], data: st.DataObject):
    body = value.join(parts).encode()
    spellings = Spellings([Secret("n", value, as_file=True)])  # which may be short
    redactor = Redactor(spellings)
    out = b""
    while body:
        size = data.draw(st.integers(1, len(body)))
        out += redactor.feed(body[:size])
        body = body[size:]
    out += redactor.finish()
    assert value.encode() not in out.replace(b"[secret n]", b"\0")


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 20))
def test_what_has_no_secret_in_it_passes_unchanged(body: bytes, size: int):
    spellings = Spellings([Secret("github", VALUE, ["api.example"])])
    redactor = Redactor(spellings)
    out = b"".join(redactor.feed(body[start : start + size]) for start in range(0, len(body), size))
    assert out + redactor.finish() == body


def test_whole_lines_are_not_held_back():
    redactor = Redactor(Spellings([Secret("github", "longsecret", ["api.example"])]))
    assert redactor.feed(b"data: event\n\n") == b"data: event\n\n"
    assert redactor.feed(b"see longsec") == b""
    assert redactor.feed(b"tion\r") == b"see longsection\r"
    assert redactor.feed(b"an end of base64: QUJDREVGR0hJSktM=\n") == b"an end of base64: QUJDREVGR0hJSktM=\n"
    assert redactor.feed(b"QUJDREVGR0hJSktM\r\n") == b""
    assert redactor.feed(b"\r\n") == b"QUJDREVGR0hJSktM\r\n\r\n"


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(sorted(ways("zQ7kP0vX/+ü").values())), st.data(), st.integers(0, 400))
def test_what_is_held_back_does_not_tell_whether_a_guess_is_right_so_far(way: bytes, data: st.DataObject, before: int):
    guess = way[: data.draw(st.integers(0, len(way) - 1))]
    secrets = [Secret("a", "zQ7kP0vX/+ü", ["api.example"]), Secret("b", "short", as_file=True)]
    passed = []
    for text in (guess, b"~" * len(guess)):
        redactor = Redactor(Spellings(secrets))
        passed.append([len(redactor.feed(piece)) for piece in (b"." * before, text[:3], text[3:])])
    assert passed[0] == passed[1] or b"[secret" in Spellings(secrets).redact(guess)


async def test_what_was_held_back_is_not_said_where_an_answer_breaks_off(net: Net):
    def answer(asked: Asked) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nfirst line\ns3cr3t-va"

    host = await net.host("api.example", answer=answer)
    secret = Secret("key", "s3cr3t-value", [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    heard = await door.send(f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode())
    assert b"first line" in heard
    assert b"s3cr" not in heard


async def test_the_host_gets_the_value_and_the_guest_never_sees_it(net: Net, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)

    def echo(asked: Asked) -> bytes:
        given = asked.values("x-key")[0]
        headers = f"X-Echo: {given}\r\nX-{given}: 1\r\nLocation: /?k={given}\r\nAccept-Ranges: bytes\r\n"
        return response(f"you sent {given}".encode(), headers=headers)

    value = "s3cr3t-value-1234"
    host = await net.host("api.example", tls=True, answer=echo)
    secret = Secret("key", value, [f"api.example:{host.port}"], "X-Key: {}")
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True), secrets=[secret])
    request = (
        f"GET /?x=1 HTTP/1.1\r\nHost: {host.place}\r\nx-KEY: placeholder\r\nX-Key: again\r\n"
        "Accept-Encoding: gzip\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n"
    )
    answer = await door.inside(host.place, request.encode())
    (asked,) = host.asked
    assert asked.values("x-key") == [value]
    assert asked.values("accept-encoding") == ["identity"]
    assert asked.values("range") == []
    assert value.encode() not in answer
    assert answer.lower().count(b"[secret key]") == 3
    assert b"transfer-encoding: chunked" in answer.lower()
    assert b"content-length" not in answer.lower()
    assert value not in repr(await net.all_reported(1)) + caplog.text + repr(door.egress)


MEASURES = {
    "Content-Length",
    "Content-Range",
    "ETag",
    "Digest",
    "Content-Digest",
    "Repr-Digest",
    "Content-MD5",
    "X-Checksum-Sha1",
    "x-amz-checksum-crc64nvme",
    "x-goog-hash",
    "x-goog-stored-content-length",
}


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 200), ("GET", 304), ("GET", 416)])
@pytest.mark.parametrize("secret", [True, False])
async def test_nothing_tells_the_length_or_a_hash_of_what_has_a_secret_in_it(
    net: Net, method: str, status: int, secret: bool
):
    def answer(asked: Asked) -> bytes:
        body = f"you sent {asked.values('x-key')}".encode()
        said = "".join(f"{name}: {len(body)}\r\n" for name in MEASURES) + "Hashtag: kept\r\nX-Sharp: kept\r\n"
        whole = f"HTTP/1.1 {status} X\r\n{said}\r\n".encode()
        return whole + (body if method == "GET" and status != 304 else b"")

    host = await net.host("api.example", answer=answer)
    secrets = [Secret("key", "s3cr3t-value", [f"http://{host.place}"], "X-Key: {}")] if secret else []
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=secrets)
    request = f"{method} {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n"
    head, _, body = (await door.send(request.encode())).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    named = {line.partition(b":")[0].lower().decode() for line in head.split(b"\r\n")[1:]}
    assert {"hashtag", "x-sharp"} <= named
    measures = {name.lower() for name in MEASURES}
    assert named & measures == (set() if secret else measures)
    assert (b"[secret key]" in body) == (secret and method == "GET" and status != 304)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_part_that_nobody_asked_for_is_not_passed_on(net: Net, method: str):
    part = response(b"{" * (method == "GET"), "206 Partial Content", "Content-Range: bytes 0-0/60\r\n")
    host = await net.host("api.example", answer=lambda asked: part)
    secret = Secret("key", "s3cr3t-value", [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    request = f"{method} {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nRange: bytes=0-0\r\nConnection: close\r\n\r\n"
    answer = await door.send(request.encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"/60" not in answer


async def test_a_connection_goes_on_after_a_head_whose_length_is_left_out(net: Net):
    host = await net.host("api.example", answer=lambda asked: b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n")
    secret = Secret("key", "s3cr3t-value", [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    head = f"HEAD {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\n"
    answer = await door.send(f"{head}\r\n{head}Connection: close\r\n\r\n".encode())
    assert [part.split()[1] for part in answer.split(b"\r\n\r\n") if part] == [b"200", b"200"]


async def test_a_secret_goes_to_its_own_hosts_and_no_others(net: Net):
    mine, other = await net.host("mine.example", tls=True), await net.host("other.example", tls=True)
    secret = Secret("key", "s3cr3t-value", [f"mine.example:{mine.port}"])
    door = await net.proxy(
        AllowedDomain(f"mine.example:{mine.port}", private=True),
        AllowedDomain(f"other.example:{other.port}", ["GET"], private=True),
        secrets=[secret],
    )
    for host in (mine, other):
        request = f"GET / HTTP/1.1\r\nHost: {host.place}\r\nAuthorization: Bearer own\r\nConnection: close\r\n\r\n"
        assert (await door.inside(host.place, request.encode())).startswith(b"HTTP/1.1 200")
    assert mine.asked[0].values("authorization") == ["Bearer s3cr3t-value"]
    assert other.asked[0].values("authorization") == ["Bearer own"]


@pytest.mark.parametrize("scheme", ["", "http://"])
async def test_plain_http_carries_a_secret_only_where_the_secret_says_so(net: Net, scheme: str):
    host = await net.host("api.example", answer=lambda asked: response(str(asked.values("authorization")).encode()))
    secret = Secret("key", "s3cr3t-value", [f"{scheme}api.example:{host.port}"])
    door = await net.proxy(AllowedDomain(f"api.example:{host.port}", private=True), secrets=[secret])
    answer = await door.send(f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode())
    assert host.asked[0].values("authorization") == (["Bearer s3cr3t-value"] if scheme else [])
    assert (b"[secret key]" in answer) == bool(scheme)
    assert b"s3cr3t-v" not in answer


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "x-own"])
async def test_an_encoded_answer_to_a_request_with_a_secret_is_not_passed_on(net: Net, coding: str):
    body = response(b"\x1f\x8bwhatever", headers=f"Content-Encoding: {coding}\r\n")
    host = await net.host("api.example", tls=True, answer=lambda asked: body)
    place = f"api.example:{host.port}"
    door = await net.proxy(AllowedDomain(place, private=True), secrets=[Secret("key", "s3cr3t-value", [place])])
    request = f"GET / HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n".encode()
    answer = await door.inside(host.place, request)
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"content encoding" in answer
    assert b"whatever" not in answer


@pytest.mark.parametrize(
    ("charset", "passes"),
    [
        *((charset, True) for charset in ("utf-8", "ISO-8859-15", '"windows-1252"', "gb2312", "Shift_JIS", "")),
        *((charset, False) for charset in ("utf-16le", '"UTF-16"', "utf-32", "cp037", "utf-7", "IBM1047")),
        *((charset, False) for charset in ('"utf-\\16"', "utf-8; charset=utf-16")),
    ],
)
async def test_an_answer_in_a_charset_that_is_not_like_ascii_is_not_passed_on(net: Net, charset: str, passes: bool):
    body = response("whatever".encode("utf-16"), headers=f"Content-Type: text/plain; Charset={charset}\r\n")
    host = await net.host("api.example", answer=lambda asked: body)
    secret = Secret("key", "s3cr3t-value", [f"http://{host.place}"])
    door = await net.proxy(AllowedDomain(host.place, private=True), secrets=[secret])
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nAccept-Charset: utf-16\r\nConnection: close\r\n\r\n"
    answer = await door.send(request.encode())
    assert answer.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 502 ")
    assert ("whatever".encode("utf-16") in answer) == passes
    assert passes or b"answered in a charset" in answer
    assert host.asked[0].values("accept-charset") == []


async def test_a_secret_in_a_headers_name_is_found_in_any_case(net: Net):
    value = "S3cr3t-Value"
    body = response(
        b"hello", headers=f"X-{value}: 1\r\n{base64.b64encode(value.encode()).decode()}: 2\r\nX-Other: 3\r\n"
    )
    host = await net.host("api.example", answer=lambda asked: body)
    door = await net.proxy(
        AllowedDomain(host.place, private=True), secrets=[Secret("key", value, [f"http://{host.place}"])]
    )
    request = f"GET {host.url}/ HTTP/1.1\r\nHost: {host.place}\r\nConnection: close\r\n\r\n"
    answer = (await door.send(request.encode())).lower()
    assert b"x-other: 3" in answer
    assert b"s3cr3t-v" not in answer
    assert base64.b64encode(value.encode()).lower() not in answer


async def test_failures_do_not_quote_the_request(net: Net, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    host = await net.host("api.example", tls=True, answer=lambda asked: f"nonsense {asked.headers}\r\n\r\n".encode())
    place = f"api.example:{host.port}"
    door = await net.proxy(AllowedDomain(place, private=True), secrets=[Secret("key", "s3cr3t-value", [place])])
    answer = await door.inside(place, f"GET / HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert "s3cr3t-v" not in answer.decode() + repr(await net.all_reported(1)) + caplog.text


@pytest.mark.parametrize("tls", [False, True])
async def test_no_other_host_can_tell_the_program_a_secret_that_it_has_heard_of(net: Net, tls: bool):
    value = "s3cr3t-value"

    def answer(asked: Asked) -> bytes:
        return response(f"I heard {value}".encode(), headers=f"X-Heard: {value}\r\n")

    other = await net.host("other.example", tls=tls, answer=answer)
    door = await net.proxy(
        AllowedDomain("mine.example"),
        AllowedDomain(other.place, ["GET"], private=True),
        secrets=[Secret("key", value, ["mine.example"])],
    )
    path = "/" if tls else f"{other.url}/"
    request = f"GET {path} HTTP/1.1\r\nHost: {other.place}\r\nRange: bytes=0-9\r\nConnection: close\r\n\r\n".encode()
    heard = await (door.inside(other.place, request) if tls else door.send(request))
    assert heard.count(b"[secret key]") == 2
    assert value.encode() not in heard
    assert other.asked[0].values("authorization") == other.asked[0].values("range") == []
    assert other.asked[0].values("accept-encoding") == ["identity"]
