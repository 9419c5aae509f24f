"""Hostile messages, from a seed: properties and headers that no library would write, and bodies that are
random, or released events changed at random. Pure."""

import json
import random
import struct
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from tools.reference.golden import golden_events

from warrener_contracts.messages import build_message
from warrener_contracts.topology import EXCHANGES, INSTALLATION, UNROUTABLE

_TIMES = (0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TYPES = (
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
    "application/json",
    "text/plain",
)
_FLOATS = (0.0, -0.0, 1.5, -1e-38, 3e38)  # the broker refuses what is no finite number
_OURS = (
    "warrener-reason",
    "warrener-queue",
    "warrener-detail",
    "warrener-given-up",
    "warrener-original-exchange",
    "traceparent",
    "tracestate",
    "baggage",
    "x-death",
    "x-first-death-queue",
    "x-delivery-count",
    "x-",
    "",
)
_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    10**400,
    1e308,
    "",
    "\0",
    "\ud800",
    "٣" * 50,
    "a" * 70_000,
    "://" * 5_000,
    "9999-12-31T23:59:59Z",
    "0000-00-00T00:00:00+99:99",
    "P99999999999Y",
    *map(json.loads, ("[]", "{}", "[" + "[]," * 200 + "1]", '{"": {"": {}}}')),
)
_ROUTES = [
    (message.exchange, message.routing_key, message)
    for message in map(build_message, golden_events().values())
]
_EXCHANGES = [one.name for one in EXCHANGES if one.name != INSTALLATION]


class Hostile(NamedTuple):
    """A message as bytes; `properties` begin with their flags."""

    exchange: str
    key: str
    properties: bytes
    body: bytes


def hostile(dice: random.Random) -> Hostile:
    """One message. Half have the address and a changed body of a released event."""
    exchange, key, message = dice.choice(_ROUTES)
    body = message.body
    if dice.random() < 0.3:
        exchange = dice.choice(_EXCHANGES)
        key = dice.choice((key, "#", "", "all", "x" * 255, "a." * 100, "1s.alpha.chaos.short", "queue.alpha"))
    if exchange == UNROUTABLE and dice.random() < 0.5:
        key = ""
    return Hostile(exchange, key, properties(dice), _body(dice, body))


def properties(dice: random.Random) -> bytes:
    """Flags and values of the properties, each there at random."""
    flags, values = 0, b""
    writers: tuple[tuple[int, float, Callable[[random.Random], bytes]], ...] = (
        (15, 0.9, lambda d: _short(d.choice(_TYPES).encode() if d.random() < 0.85 else _bytes(d, 255))),
        (14, 0.1, lambda d: _short(_bytes(d, 40))),
        (13, 0.6, lambda d: _long(_table(d, 0))),
        (12, 0.9, lambda d: bytes([d.choice((1, 2, 2, 2))])),
        (11, 0.1, lambda d: bytes([d.randrange(256)])),
        (10, 0.2, lambda d: _short(_bytes(d, 255))),
        (9, 0.2, lambda d: _short(_bytes(d, 255))),
        (8, 0.02, lambda d: _short(str(d.choice((0, 1, 4_294_967_295))).encode())),
        (7, 0.7, lambda d: _short(_bytes(d, 255))),
        (6, 0.5, lambda d: struct.pack(">Q", d.choice(_TIMES))),
        (5, 0.5, lambda d: _short(d.choice((b"job.requested.v1", _bytes(d, 60))))),
        (3, 0.1, lambda d: _short(_bytes(d, 60))),
        (2, 0.1, lambda d: _short(_bytes(d, 60))),
    )
    for bit, share, write in writers:
        if dice.random() < share:
            flags |= 1 << bit
            values += write(dice)
    return struct.pack(">H", flags) + values


def _table(dice: random.Random, depth: int) -> bytes:
    """The entries of a table: usually few, rarely thousands."""
    size = dice.choices((dice.randrange(6), 3000), (200, 1 if depth == 0 else 0))[0]
    names = (dice.choice(_OURS).encode() if dice.random() < 0.6 else _bytes(dice, 30) for _ in range(size))
    return b"".join(_short(name) + _field(dice, depth if size < 10 else 9) for name in names)


def _field(dice: random.Random, depth: int) -> bytes:
    """One value of any type of AMQP."""
    kind = dice.choice("tbBsuIilfdDSTVx" + ("AFAF" if depth < 3 else ""))
    if depth == 0 and dice.random() < 0.01:
        return _nested(dice.choice("AF"), dice.choice((50, 500, 2000)))
    values: dict[str, Callable[[], bytes]] = {
        "t": lambda: bytes([dice.choice((0, 1, 7))]),
        "b": lambda: dice.randbytes(1),
        "B": lambda: dice.randbytes(1),
        "s": lambda: dice.randbytes(2),
        "u": lambda: dice.randbytes(2),
        "I": lambda: dice.randbytes(4),
        "i": lambda: dice.randbytes(4),
        "l": lambda: dice.randbytes(8),
        "f": lambda: struct.pack(">f", dice.choice(_FLOATS)),
        "d": lambda: struct.pack(">d", dice.choice(_FLOATS)),
        "D": lambda: bytes([dice.choice((0, 2, 255))]) + dice.randbytes(4),
        "S": lambda: _long(_bytes(dice, 300)),
        "x": lambda: _long(_bytes(dice, 300)),
        "T": lambda: struct.pack(">Q", dice.choice(_TIMES)),
        "V": lambda: b"",
        "A": lambda: _long(b"".join(_field(dice, depth + 1) for _ in range(dice.randrange(5)))),
        "F": lambda: _long(_table(dice, depth + 1)),
    }
    return kind.encode() + values[kind]()


def _nested(kind: str, depth: int) -> bytes:
    inner = b"V"
    for _ in range(depth):
        inner = kind.encode() + _long(inner if kind == "A" else _short(b"a") + inner)
    return inner


def _body(dice: random.Random, body: bytes) -> bytes:
    roll = dice.random()
    if roll < 0.08:
        return _bytes(dice, 2_000)
    if roll < 0.12:
        return dice.choice(
            (b"", b"[]", b"{}", b"null", b"[" * 20_000, b'{"a":' * 20_000, b"[{}]", b"\xff\xfe")
        )
    if roll < 0.2:
        return body[: dice.randrange(len(body))]
    if roll < 0.4:
        changed = bytearray(body)
        for _ in range(dice.randrange(1, 6)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed)
    event = json.loads(body)
    for _ in range(dice.randrange(1, 4)):
        _change(dice, event)
    if dice.random() < 0.15:
        return _written([event] * dice.choice((1, 3, 50) if len(body) < 2_000 else (1, 3)))
    return _written(event)


def _change(dice: random.Random, event: Any) -> None:
    """Change, add or remove a value somewhere in the event."""
    at: dict[str, Any] = event
    while at:
        name = dice.choice(list(at))
        if isinstance(at[name], dict) and dice.random() < 0.7:
            at = at[name]
            continue
        match dice.randrange(4):
            case 0:
                del at[name]
            case 1:
                at[str(dice.choice(_ODD))[:100]] = deepcopy(dice.choice(_ODD))
            case _:
                at[name] = deepcopy(dice.choice(_ODD))
        return


def _written(value: Any) -> bytes:
    return json.dumps(value).encode()


def _bytes(dice: random.Random, longest: int) -> bytes:
    return dice.randbytes(dice.randrange(longest))


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text
