"""A proxy in threads of its own, whose connections can be silenced, refused and reset."""

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field


@dataclass(eq=False)
class Link:
    """One connection, both ways. `parsed` and `bound`: the statements of PostgreSQL that it has prepared."""

    client: socket.socket
    server: socket.socket
    carries_up: bool = True
    carries_down: bool = True
    parsed: dict[bytes, str] = field(default_factory=dict[bytes, str])
    bound: dict[bytes, str] = field(default_factory=dict[bytes, str])

    def silence(self) -> None:
        self.carries_up = self.carries_down = False

    def reset(self) -> None:
        self.silence()
        for end in (self.client, self.server):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class ThreadedProxy:
    """Stands between clients and a server on this host, in threads of its own. Connections without TLS."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        """Where new connections go; those that there are stay where they are."""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._links: list[Link] = []
        self._changed = threading.Condition()
        self._refusing = self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """Every connection that there is stays open and carries nothing; new ones work."""
        with self._changed:
            for link in self._links:
                link.silence()

    def blackhole(self) -> None:
        """As `silence`, and new connections are accepted and get no answer either, until `heal`."""
        with self._changed:
            self._refusing = True
            self.silence()

    def reset(self) -> None:
        """Both sides see every connection broken; new ones work."""
        with self._changed:
            links, self._links = self._links, []
        for link in links:
            link.reset()

    def heal(self) -> None:
        """New connections work. Silent ones are reset."""
        with self._changed:
            self._refusing = False
            silent = [link for link in self._links if not (link.carries_up and link.carries_down)]
            self._links = [link for link in self._links if link not in silent]
        for link in silent:
            link.reset()

    def close(self) -> None:
        """End every connection, and take no new one."""
        with self._changed:
            self._closed = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.reset()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.target_port))
                except OSError:
                    client.close()
                    continue
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = Link(client, server)
                with self._changed:
                    if self._refusing:
                        link.silence()
                    self._links.append(link)
                    closed = self._closed
                if closed:  # it was accepted while `close` reset the others
                    link.reset()
                    return
                threading.Thread(target=self._up, args=(link,), daemon=True).start()
                threading.Thread(target=self._down, args=(link,), daemon=True).start()

    def _down(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(65536):
                if link.carries_down:
                    link.client.sendall(data)
        self._end(link, link.client)

    def _up(self, link: Link) -> None:
        with suppress(OSError):
            while data := link.client.recv(65536):
                if link.carries_up:
                    link.server.sendall(data)
        self._end(link, link.server)

    def _end(self, link: Link, other: socket.socket) -> None:
        """One side has closed: so does the other, unless the connection is silent."""
        if link.carries_up and link.carries_down:
            with suppress(OSError):
                other.shutdown(socket.SHUT_WR)
