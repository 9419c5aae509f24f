"""Who we are (SASL)."""

from dataclasses import dataclass, field
from typing import Protocol


class Credentials(Protocol):
    """A SASL mechanism and its first response."""

    @property
    def mechanism(self) -> str:
        """As the broker lists it."""
        ...

    @property
    def description(self) -> str:
        """For messages."""
        ...

    def response(self) -> str:
        """What is sent in Connection.StartOk."""
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """A user and a password; send it over TLS where others may listen."""

    user: str
    password: str = field(repr=False)

    @property
    def mechanism(self) -> str:
        """As the broker lists it."""
        return "PLAIN"

    @property
    def description(self) -> str:
        """For messages."""
        return f"user {self.user!r}"

    def response(self) -> str:
        """RFC 4616."""
        return f"\0{self.user}\0{self.password}"


@dataclass(frozen=True, slots=True)
class External:
    """The certificate of the TLS connection says who we are (plugin rabbitmq_auth_mechanism_ssl)."""

    @property
    def mechanism(self) -> str:
        """As the broker lists it."""
        return "EXTERNAL"

    @property
    def description(self) -> str:
        """For messages."""
        return "the user of the certificate"

    def response(self) -> str:
        """Nothing: the certificate has said it."""
        return ""
