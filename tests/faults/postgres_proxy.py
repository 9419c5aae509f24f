"""A proxy in front of PostgreSQL that reads the client's messages, so that it can break a connection exactly
at a statement: before the server gets it, or after the server has carried it out and before the client knows.

It knows both protocols: a statement is a simple query, or an Execute of what was parsed before. With the
latter, a message that holds the Sync too is one commit: the server has committed when it has got both.
"""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from tests.faults.threaded_proxy import Link, ThreadedProxy

COMMIT = r"\bCOMMIT\b"
"""A statement that ends a transaction, alone or as the last of several in one message."""

_SSL, _GSS = 80877103, 80877104
_QUERY, _PARSE, _BIND, _EXECUTE, _CLOSE = b"Q", b"P", b"B", b"E", b"C"


def by_way_of(url: str, port: int) -> str:
    """The server's URL, by this port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}"))


class When(StrEnum):
    """On which side of the statement a connection is struck."""

    BEFORE = "before"  # the server never gets it
    AFTER = "after"  # the server carries it out; its answer does not arrive


class How(StrEnum):
    """What happens to a connection that is struck."""

    SILENT = "silent"  # it stays open and carries nothing: the client and the server believe in each other
    RESET = "reset"  # both sides see it broken


@dataclass
class _Strike:
    statement: re.Pattern[str]
    when: When
    how: How
    times: int


class PostgresProxy(ThreadedProxy):
    """Breaks connections at a statement."""

    def __init__(self, target_port: int) -> None:
        self._strikes: list[_Strike] = []
        self.struck: list[str] = []
        """The statements at which connections were struck, in order."""
        super().__init__(target_port)

    def strike(
        self, statement: str = COMMIT, when: When = When.BEFORE, how: How = How.SILENT, *, times: int = 1
    ) -> None:
        """Strike the connections by which the next `times` statements go that this pattern is found in."""
        with self._changed:
            self._strikes.append(_Strike(re.compile(statement, re.IGNORECASE), when, how, times))

    def wait_struck(self, times: int = 1, *, within: float = 60.0) -> bool:
        """True once so many connections were struck in all."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.struck) >= times, within)

    def heal(self) -> None:
        """No strike is open any more and new connections work. Silent ones are reset."""
        with self._changed:
            self._strikes.clear()
        super().heal()

    def _up(self, link: Link) -> None:
        with suppress(OSError, struct.error):
            for messages in _messages(link.client):
                self._pass_on(link, messages)
        self._end(link, link.server)

    def _pass_on(self, link: Link, messages: list[tuple[bytes, bytes]]) -> None:
        """What has arrived in one piece leaves in one piece, as far as it leaves."""
        strike = None
        for kind, whole in messages:
            text = _statement_of(link, kind, whole[5:]) if kind else None
            if text is not None and link.carries_up:
                strike = strike or self._due(text)
        if strike is not None and strike.when is When.BEFORE:
            self._carry_out(link, strike)
            return
        if link.carries_up:
            if strike is not None:
                link.carries_down = False  # before the server can answer
            link.server.sendall(b"".join(whole for _, whole in messages))
        if strike is not None:
            self._carry_out(link, strike)

    def _due(self, text: str) -> _Strike | None:
        with self._changed:
            for strike in self._strikes:
                if strike.times and strike.statement.search(text):
                    strike.times -= 1
                    self.struck.append(text)
                    return strike
        return None

    def _carry_out(self, link: Link, strike: _Strike) -> None:
        if strike.how is How.SILENT:
            link.silence()
        elif strike.when is When.BEFORE:
            link.reset()
        else:  # the server has carried it out when it says so, and the client has not heard
            threading.Thread(target=_reset_when_idle, args=(link,), daemon=True).start()
        with self._changed:
            self._changed.notify_all()


def _statement_of(link: Link, kind: bytes, body: bytes) -> str | None:
    """The text that this message has the server carry out."""
    if kind == _QUERY:
        return body[:-1].decode(errors="replace")
    if kind == _PARSE:
        name, text, _ = body.split(b"\0", 2)
        link.parsed[name] = text.decode(errors="replace")
    elif kind == _BIND:
        portal, name, _ = body.split(b"\0", 2)
        link.bound[portal] = link.parsed.get(name, "")
    elif kind == _CLOSE and body[:1] == b"S":
        link.parsed.pop(body[1:-1], None)
    elif kind == _EXECUTE:
        return link.bound.get(body.partition(b"\0")[0], "")
    return None


def _reset_when_idle(link: Link) -> None:
    """The answer is dropped by `_down`; closing our side lets the server finish what it has got."""
    with suppress(OSError):
        link.server.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        link.client.shutdown(socket.SHUT_RDWR)
    link.client.close()


def _messages(client: socket.socket) -> Iterator[list[tuple[bytes, bytes]]]:
    """The client's messages (type, whole), those together that have arrived together. The first ones have no
    type: b""."""
    waiting, started = b"", False
    while data := client.recv(1 << 20):
        waiting += data
        found: list[tuple[bytes, bytes]] = []
        while True:
            head = 1 if started else 0
            if len(waiting) < head + 4:
                break
            size = head + struct.unpack("!I", waiting[head : head + 4])[0]
            if len(waiting) < size:
                break
            whole, waiting = waiting[:size], waiting[size:]
            found.append((whole[:head], whole))
            if not started:
                started = struct.unpack("!I", whole[4:8])[0] not in (_SSL, _GSS)
        if found:
            yield found
