"""A user of the broker whose permissions change."""

from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from tests.servers.kinds import RabbitMQServer

from warrener_contracts.permissions import Holder, commands_of
from warrener_devservers.process import ServerFailed

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

    def holds(self, configure: str, write: str, read: str) -> bool:
        """True if the broker shows these names as permitted to the user."""
        ours = f'<<"{self.name}">>, <<"{self.vhost}">>'
        rights = ", ".join(f'<<"{names}">>' for names in (configure, write, read)).replace("\\", "\\\\")
        shown = self._broker.evaluate(
            f"[P] = rabbit_auth_backend_internal:list_user_vhost_permissions({ours}),"
            f" [proplists:get_value(K, P) || K <- [configure, write, read]] =:= [{rights}]"
        )
        return shown == "true"

    def permit_keys(self, exchange: str, write: str) -> None:
        """Set the routing keys that the user may publish to this exchange."""
        names = f'<<"{self.name}">>, <<"{self.vhost}">>, <<"{exchange}">>, <<"{write}">>, <<".*">>'
        self._evaluate(f'set_topic_permissions({names}, <<"test">>)')

    def hold(self, holder: Holder) -> None:
        """Give the user a role, by the commands that `warrener topology permissions` prints."""
        for _, command, _, vhost, user, *patterns in commands_of(replace(holder, user=self.name), self.vhost):
            assert (vhost, user) == (self.vhost, self.name)
            where = f'<<"{user}">>, <<"{vhost}">>'
            given = "".join(f', <<"{pattern}">>' for pattern in patterns)
            try:
                self._evaluate(f'{command}({where}{given}, <<"test">>)')
            except ServerFailed as error:  # RabbitMQ 4.3 takes keys of existing exchanges alone
                if "no_such_exchange" not in str(error):
                    raise

    def remove(self) -> None:
        """Remove the user."""
        self._evaluate(f'delete_user(<<"{self.name}">>, <<"test">>)')

    def _evaluate(self, call: str) -> None:
        escaped = call.replace("\\", "\\\\")  # of patterns
        self._broker.evaluate(f"{_CALL}{escaped}")
