"""A user of the broker whose permissions change."""

from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from tests.servers.kinds import RabbitMQServer

_CALL = "ok = rabbit_auth_backend_internal:"


class BrokerUser:
    """Another user of the virtual host at a URL, who may do all until `permit` says otherwise."""

    def __init__(self, broker: RabbitMQServer, vhost_url: str) -> None:
        self._broker = broker
        address = urlsplit(vhost_url)
        self.name, self.vhost = f"user-{uuid4().hex[:8]}", address.path.removeprefix("/")
        self.url = urlunsplit(
            address._replace(netloc=f"{self.name}:secret@{address.hostname}:{address.port}")
        )
        self._evaluate(f'add_user(<<"{self.name}">>, <<"secret">>, <<"test">>)')
        self.permit()

    def permit(self, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        """Set the names of what the user may configure, write to and read. Open channels remember others."""
        rights = ", ".join(f'<<"{names}">>' for names in (configure, write, read))
        self._evaluate(f'set_permissions(<<"{self.name}">>, <<"{self.vhost}">>, {rights}, <<"test">>)')

    def permit_keys(self, exchange: str, write: str) -> None:
        """Set the routing keys that the user may publish to this exchange."""
        names = f'<<"{self.name}">>, <<"{self.vhost}">>, <<"{exchange}">>, <<"{write}">>, <<".*">>'
        self._evaluate(f'set_topic_permissions({names}, <<"test">>)')

    def remove(self) -> None:
        """Remove the user."""
        self._evaluate(f'delete_user(<<"{self.name}">>, <<"test">>)')

    def _evaluate(self, call: str) -> None:
        escaped = call.replace("\\", "\\\\")  # of patterns
        self._broker.evaluate(f"{_CALL}{escaped}")
