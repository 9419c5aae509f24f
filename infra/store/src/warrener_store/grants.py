"""The rights of each role on the tables in PostgreSQL: as statements, and compared with those of a user."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import asyncpg

from warrener_contracts.postgres_sessions import open_session
from warrener_store.databases.address import SqliteAddress, parse_address, server_settings
from warrener_store.databases.failures import translate_errors
from warrener_store.errors import StoreError
from warrener_store.migrations import VERSION_TABLE, read_steps

_ALL = "SELECT, INSERT, UPDATE, DELETE"
_GRANTED: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "warrener_audit": {
            "console": "SELECT, INSERT, UPDATE (outcome, sentence, completed_at)",
            "scheduler": "SELECT, DELETE",  # retention
            "supervisor": "SELECT, INSERT",  # commands that it has carried out
        },
        "warrener_sessions": {"console": _ALL},
        "warrener_installation": {
            "console": "SELECT (one, installation_id)",  # ids of ticks can be foretold from the secret
            "scheduler": _ALL,
            "supervisor": _ALL,
        },
    }
)
"""Tables with other rights than the rest, by role."""
_LEDGER = ("warrener_ledger", "warrener_ledger_checkpoints")
_PRIVILEGES = """
SELECT name, privilege, has_table_privilege(name, privilege), CASE WHEN privilege <> 'DELETE' THEN ARRAY(
  SELECT attname::text FROM pg_attribute
  WHERE attrelid = name::regclass AND attnum > 0 AND has_column_privilege(name, attname, privilege)
  ORDER BY attnum
) ELSE '{}' END
FROM unnest($1::text[]) AS name CROSS JOIN unnest($2::text[]) AS privilege
"""
_OWNER = """
SELECT current_user::text, EXISTS (
  SELECT FROM pg_class JOIN unnest($1::text[]) AS name ON pg_class.oid = to_regclass(name)
  WHERE pg_has_role(relowner, 'MEMBER')
)
"""
_NO_TEMPORARY_TABLES = (
    "DO $$ BEGIN EXECUTE format('REVOKE TEMP ON DATABASE %I FROM PUBLIC', current_database()); END $$"
)
_RIGHT = re.compile(r"(\w+)(?: \(([^)]+)\))?")
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)

STORE_ROLES = ("scheduler", "supervisor", "console", "ledger")


def store_tables() -> list[str]:
    """The tables of the store, in the order in which the migrations make them."""
    return [table for script in read_steps("postgres").values() for table in _TABLE.findall(script)]


def grants_of(role: str, user: str, schema: str = "public") -> list[str]:
    """Return the statements that give a role of PostgreSQL what one of Warrener's roles needs, and take all
    else. The owner of the tables runs them, again after each migration. Raises ValueError.

    - `scheduler`, `supervisor`: read and write rows, but for those of the console. The scheduler deletes old
      records of the audit log, the supervisor adds some.
    - `console`: read all but the secret of the installation; add to the audit log, and write its sessions.
    - `ledger`: of the ledger's database, the rows of claims; its owner has made the tables.
    """
    for name in (user, schema):
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected a name of a-z, 0-9, _ and -, got {name!r}; choose another")
    if role not in STORE_ROLES:
        raise ValueError(f"expected one of {', '.join(STORE_ROLES)}, got {role!r}; correct it")
    tables = _LEDGER if role == "ledger" else (*store_tables(), VERSION_TABLE)
    granted = [
        f'GRANT {rights} ON "{schema}".{table} TO "{user}"'
        for table in tables
        if (rights := _rights(role, table))
    ]
    return [
        f'REVOKE CREATE ON SCHEMA "{schema}" FROM PUBLIC',
        _NO_TEMPORARY_TABLES,
        f'GRANT USAGE ON SCHEMA "{schema}" TO "{user}"',
        *(f'REVOKE ALL ON "{schema}".{table} FROM "{user}"' for table in tables),
        *granted,
    ]


@dataclass(frozen=True, slots=True)
class UserRights:
    """The rights of a user of PostgreSQL on tables. `owns`: it owns one of them, or is a superuser, whom no
    grant binds."""

    user: str
    owns: bool
    given: Sequence[tuple[str, str, bool, Sequence[str]]]

    def compare(self, role: str) -> tuple[list[str], list[str]]:
        """Return what the user may do with the tables beyond a role, and what it lacks for it."""
        beyond, lacking = list[str](), list[str]()
        for name, right, whole, columns in self.given:
            wanted: dict[str, list[str] | None] = {
                one: found.split(", ") if found else None
                for one, found in _RIGHT.findall(_rights(role, name))
            }
            if right in wanted and wanted[right] is None:
                if not whole:
                    lacking.append(f"{right} {name}")
                continue
            named = wanted.get(right) or []
            more = [one for one in columns if one not in named]
            if whole or more:
                beyond.append(f"{right} {name}" if whole else f"{right} ({', '.join(more)}) {name}")
            if less := [one for one in named if one not in columns]:
                lacking.append(f"{right} ({', '.join(less)}) {name}")
        return beyond, lacking


async def read_rights(url: str, *, ledger: bool = False) -> UserRights:
    """Read what the user of this URL may do with the tables of the store, or of a ledger.

    Raises StoreError, as for SQLite, which has no users.
    """
    address = parse_address(url)
    if isinstance(address, SqliteAddress):
        raise StoreError(f"expected a store in PostgreSQL, got {address}; SQLite has no roles")
    tables = list(_LEDGER) if ledger else [*store_tables(), VERSION_TABLE]
    with translate_errors(address):
        connection = await open_session(address, asyncpg.connect, server_settings=server_settings(address))
        try:
            [(user, owns)] = await connection.fetch(_OWNER, tables)
            rows = await connection.fetch(_PRIVILEGES, tables, _ALL.split(", "))
        finally:
            await connection.close()
    return UserRights(user, owns, [(name, right, whole, columns) for name, right, whole, columns in rows])


def _rights(role: str, table: str) -> str:
    if table == VERSION_TABLE:
        return "SELECT"
    if table in _GRANTED:
        return _GRANTED[table].get(role, "")
    return "SELECT" if role == "console" else _ALL
