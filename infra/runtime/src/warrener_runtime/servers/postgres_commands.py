"""What a test asks of a PostgreSQL as its owner, wherever the server runs."""

import re
from abc import ABC, abstractmethod

_DATABASE_NAME = re.compile(r"[a-z][a-z0-9_]*")


class PostgresCommands(ABC):
    """The commands of a server that runs SQL for us."""

    @abstractmethod
    def url_of(self, database: str) -> str:
        """The URL of one database."""

    @abstractmethod
    def execute(self, statement: str) -> str:
        """Run one statement by psql; what it prints. ServerFailed if it cannot."""

    def add_database(self, name: str, template: str = "template1") -> str:
        """A new database, a copy of `template` to which nobody may be connected; its URL. It takes 40 ms."""
        self.execute(f'CREATE DATABASE "{_checked(name)}" TEMPLATE "{_checked(template)}"')
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Delete a database; whoever is connected to it is thrown out."""
        self.execute(f'DROP DATABASE IF EXISTS "{_checked(name)}" WITH (FORCE)')


def _checked(name: str) -> str:
    if not _DATABASE_NAME.fullmatch(name):
        raise ValueError(f"expected the name of a database of small letters, digits and '_', got {name!r}")
    return name
