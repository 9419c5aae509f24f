"""What a test asks of a RabbitMQ node that AMQP cannot ask, wherever the node runs."""

import re
from abc import ABC, abstractmethod

_VHOST_NAME = re.compile(r"[A-Za-z0-9._-]+")


class RabbitMQCommands(ABC):
    """The commands of a node that evaluates Erlang."""

    user = "guest"
    """Who may do everything in a new virtual host."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The virtual host `/`; the name of another one may be appended."""

    @abstractmethod
    def evaluate(self, expressions: str) -> str:
        """The value of the last expression, as Erlang writes it; ServerFailed if it raised."""

    def add_vhost(self, name: str) -> str:
        """A new virtual host in which `user` may do everything; its URL."""
        quoted = _quoted(name)
        self.evaluate(
            f'ok = rabbit_vhost:add({quoted}, <<"warrener">>), '
            f"ok = rabbit_auth_backend_internal:set_permissions("
            f'<<"{self.user}">>, {quoted}, <<".*">>, <<".*">>, <<".*">>, <<"warrener">>)'
        )
        return f"{self.url}{name}"

    def drop_vhost(self, name: str) -> None:
        """Delete a virtual host and all in it; the node does it while we go on."""
        self.evaluate(f'spawn(fun() -> rabbit_vhost:delete({_quoted(name)}, <<"warrener">>) end)')

    def close_connections(self, reason: str = "closed by the test") -> None:
        """Close every client's connection, as an operator may (CONNECTION_FORCED)."""
        text = reason.replace("\\", "").replace('"', "'")
        self.evaluate(
            f'[rabbit_networking:close_connection(C, "{text}") || C <- rabbit_networking:connections()]'
        )

    def settle(self) -> None:
        """Write to disk which queues there are. Call it between declaring quorum queues and killing the node.

        RabbitMQ 3.10 notes a new quorum queue a second late: if its node is killed in that second, it loses
        confirmed messages and never has a leader again. It is not what a test of ours is to find.
        """
        self.evaluate("[dets:sync(Table) || Table <- dets:all()]")

    def version(self) -> str:
        """Such as 3.10.8."""
        return self.evaluate("rabbit_misc:version()").strip('"')


def _quoted(name: str) -> str:
    if not _VHOST_NAME.fullmatch(name):
        raise ValueError(f"expected the name of a vhost of letters, digits, '.', '_' and '-', got {name!r}")
    return f'<<"{name}">>'
