"""How much the clients of one proxy may take of the host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one sandbox may ask of its proxy, whatever its policy allows.

    A connection beyond `connections`, or beyond the `guest_connections` of one guest, waits until another has ended.
    Each connection, TLS handshake and request of a guest counts as asked, also if it is refused: what goes beyond
    `asked_at_once` waits, and goes on at `asked_per_second` besides what the policy's entries allow. Questions about
    names are counted apart, by `names_at_once` and `names_per_second`. After `refusals_told` refusals of a guest, one
    event stands for as many. `head_bytes`, `line_bytes` and `headers` bound the head of a request, and `head_bytes`
    that of a response; `hello_bytes` bounds a TLS ClientHello. Of what frames a body (sizes of chunks, trailers, a
    response's head and the answers before it) `framing_bytes` are free; what goes beyond is taken from its entry's
    bytes. A host may give `informational` answers before the last. In one turn of the event loop all connections
    together do some `steps_a_turn` steps, such as a chunk of a body.

    Times are in seconds: `idle` for a client that sends nothing where something is expected, `hello` for a TLS
    handshake, `connect` for the resolution of a name and for each connection to an address, `tunnel_idle` for a tunnel
    in which nothing moves either way.
    """

    connections: int = 256
    guest_connections: int = 64
    asked_at_once: float = 500.0
    asked_per_second: float = 50.0
    names_at_once: float = 1000.0
    names_per_second: float = 200.0
    refusals_told: int = 1000
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
