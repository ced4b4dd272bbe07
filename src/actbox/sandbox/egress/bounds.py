"""Bounds on the host's resources that the clients of one proxy may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds on what one sandbox may ask of its proxy, whatever its policy allows.

    A connection beyond `connections`, or beyond the `guest_connections` of one guest, waits until another has ended.
    Each connection, TLS handshake and request of a guest counts as asked, even if it is refused: what exceeds
    `asked_at_once` waits, and continues at `asked_per_second` plus the rate that the policy's entries allow. Name
    queries are counted apart, by `names_at_once` and `names_per_second`. After `refusals_reported` refusals of a guest,
    one event stands for that many. `head_bytes`, `line_bytes` and `headers` bound the head of a request, and
    `head_bytes` that of a response; `hello_bytes` bounds a TLS ClientHello. Of the framing of a body (chunk sizes,
    trailers, a response's head and the interim answers before it) `framing_bytes` are free; the rest counts against its
    entry's bytes. A host may send `informational` answers before the final one. In one turn of the event loop all
    connections together do about `steps_a_turn` steps, such as a chunk of a body.

    Times are in seconds: `idle` for a client that sends nothing when data is expected, `hello` for a TLS handshake,
    `connect` for the resolution of a name and for each connection to an address, `tunnel_idle` for a tunnel in which no
    data moves in either direction.
    """

    connections: int = 256
    guest_connections: int = 64
    asked_at_once: float = 500.0
    asked_per_second: float = 50.0
    names_at_once: float = 1000.0
    names_per_second: float = 200.0
    refusals_reported: int = 1000
    head_bytes: int = 64 * 1024
    line_bytes: int = 16 * 1024
    headers: int = 100
    hello_bytes: int = 32 * 1024
    framing_bytes: int = 64 * 1024
    informational: int = 16
    steps_a_turn: int = 64
    idle: float = 60.0
    hello: float = 20.0
    connect: float = 15.0
    tunnel_idle: float = 300.0
