"""The outbox of requesters: a request is written in its requester's own transaction; a relay publishes it.

So a request exists if, and only if, that transaction has committed. The row has the id of the job, so what a
relay publishes again after a crash is the same job.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Unpack
from uuid import UUID

from warrener_client.requests import Arguments, BulkEncoder, JobSpec, PrivateRequests, RequestOptions
from warrener_contracts.identity import job_id_of
from warrener_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from warrener_runtime.keys import ENCRYPTION_KEYS, find_key_file, load_key_ring
from warrener_runtime.telemetry import TraceContext, current_trace_context
from warrener_runtime.telemetry.baggage import current_baggage

TABLES: Mapping[str, str] = {
    "postgresql": """
CREATE TABLE IF NOT EXISTS warrener_outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ordering_key text NOT NULL,
    job_id uuid NOT NULL,
    request text NOT NULL,
    refusal text,
    written_at timestamptz NOT NULL DEFAULT now()
);
""",
    "sqlite": """
CREATE TABLE IF NOT EXISTS warrener_outbox (
    id integer PRIMARY KEY AUTOINCREMENT,
    ordering_key text NOT NULL,
    job_id text NOT NULL,
    request text NOT NULL,
    refusal text,
    written_at text NOT NULL DEFAULT current_timestamp
);
""",
}
"""The table by database, for a team's own migrations; `warrener outbox create` makes it too."""
WRITERS, RELAYS = 7_301_001, 7_301_002
"""The first numbers of PostgreSQL's advisory locks of a key: of those who write its rows, and of relays."""
_INSERT = "INSERT INTO warrener_outbox (ordering_key, job_id, request) VALUES ({0}, CAST({1} AS {uuid}), {2})"
# The lock ends with the transaction: rows of one key have the order of their commits.
_LOCK = f"SELECT pg_advisory_xact_lock({WRITERS}, hashtext({{}}))"


class _Library(NamedTuple):
    """How a library of databases takes a statement: `mark` stands for its nth parameter."""

    mark: str
    execute: Callable[[Any, str, Sequence[str]], Any]
    is_sqlite: Callable[[Any], bool]


def _with_cursor(connection: Any, statement: str, values: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def _with_names(connection: Any, statement: str, values: Sequence[str]) -> Any:
    named = {f"p{number}": value for number, value in enumerate(values, 1)}
    return connection.execute(import_module("sqlalchemy").text(statement), named)


def _with_list(connection: Any, statement: str, values: Sequence[str]) -> Any:
    return connection.execute(statement, values)


def _one_by_one(connection: Any, statement: str, values: Sequence[str]) -> Any:
    return connection.execute(statement, *values)


def _always(connection: Any) -> bool:
    del connection
    return True


def _never(connection: Any) -> bool:
    return not _always(connection)


def _sqlalchemy_has_sqlite(connection: Any) -> bool:
    bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
    return bool(bound.dialect.name == "sqlite")


def _django_has_sqlite(connection: Any) -> bool:
    return bool(connection.vendor == "sqlite")


_LIBRARIES: Mapping[str, _Library] = {
    "sqlalchemy": _Library(":p{}", _with_names, _sqlalchemy_has_sqlite),
    "django": _Library("%s", _with_cursor, _django_has_sqlite),
    "psycopg": _Library("%s", _with_list, _never),
    "psycopg2": _Library("%s", _with_cursor, _never),
    "asyncpg": _Library("${}", _one_by_one, _never),
    "sqlite3": _Library("?", _with_list, _always),
}


class Outbox:
    """Writes requests in transactions of their requester.

    - `source`: the sender of every request. A text id is unique for its source; a UUID is unique by itself.
    - `encryption_keys`, `encrypts`: as those of a client. The relay signs, if requests are signed.
    """

    def __init__(
        self,
        *,
        source: str = "warrener.client",
        encryption_keys: str | os.PathLike[str] | None = None,
        encrypts: Sequence[str] = ("*",),
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.source = source
        codec = load_key_ring(find_key_file(encryption_keys, ENCRYPTION_KEYS))
        self._private = PrivateRequests(codec, encrypts)
        self._clock, self._entropy = clock or SystemClock(), entropy or SystemEntropy()

    def enqueue(
        self,
        connection: Any,
        job_type: str,
        arguments: Arguments | None = None,
        *,
        ordering_key: str = "",
        **options: Unpack[RequestOptions],
    ) -> UUID:
        """Write a request in the transaction that is open on `connection`; return the id that its job will
        have. Nothing is sent unless that transaction commits.

        - `connection`: of SQLAlchemy (Connection or Session), Django (`django.db.connection`), psycopg,
          psycopg2 or sqlite3.
        - `ordering_key`: requests of one key are published in the order of their commits. On PostgreSQL a
          transaction waits for the others that have written under its key.

        Raises BadRequest, RequestTooLarge, TypeError for another connection, and the errors of its library.
        """
        job_id, statements = self._statements(connection, job_type, arguments, ordering_key, options)
        for result in statements:
            if inspect.isawaitable(result):
                getattr(result, "close", lambda: None)()  # it never ran
                raise TypeError("expected a blocking connection, got an asynchronous one: use enqueue_async")
        return job_id

    async def enqueue_async(
        self,
        connection: Any,
        job_type: str,
        arguments: Arguments | None = None,
        *,
        ordering_key: str = "",
        **options: Unpack[RequestOptions],
    ) -> UUID:
        """As `enqueue`, on an asynchronous connection of SQLAlchemy (AsyncConnection, AsyncSession), psycopg
        or asyncpg."""
        job_id, statements = self._statements(connection, job_type, arguments, ordering_key, options)
        for result in statements:
            if not inspect.isawaitable(result):
                raise TypeError("expected an asynchronous connection, got a blocking one: use enqueue")
            await result
        return job_id

    def _statements(
        self,
        connection: Any,
        job_type: str,
        arguments: Arguments | None,
        ordering_key: str,
        options: RequestOptions,
    ) -> tuple[UUID, Iterator[Any]]:
        """The id of the job, and the results of the statements, each of which runs when it is reached."""
        kind = type(connection).__module__.partition(".")[0]
        # Proxies such as Django's `connection` say what they stand for by their attributes alone.
        library = _LIBRARIES.get("django" if hasattr(connection, "vendor") else kind)
        if library is None:
            raise TypeError(f"expected a connection of {', '.join(_LIBRARIES)}, got one of {kind}")
        spec = JobSpec(job_type, arguments or {}, **options)
        given = spec.id or self._entropy.new_id()
        event_id = str(given)
        job_id = given if isinstance(given, UUID) else job_id_of(self.source, event_id)
        around = TraceContext(spec.traceparent) if spec.traceparent else current_trace_context()
        encoder = BulkEncoder(self.source, self._clock.now(), None, current_baggage())
        message = encoder.encode(self._private.spec(spec, job_id), event_id, around or TraceContext())
        return job_id, _run(library, connection, ordering_key, str(job_id), message.body.decode())


def _run(library: _Library, connection: Any, key: str, job_id: str, request: str) -> Iterator[Any]:
    is_sqlite = library.is_sqlite(connection)
    marks = [library.mark.format(number) for number in range(1, 4)]
    if key and not is_sqlite:
        yield library.execute(connection, _LOCK.format(marks[0]), [key])
    statement = _INSERT.format(*marks, uuid="text" if is_sqlite else "uuid")
    yield library.execute(connection, statement, [key, job_id, request])
