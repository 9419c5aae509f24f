"""A noun: how its things are listed and read, and its verbs.

Commands, routes of the API and actions of pages are made from it. None of them checks anything for itself:
the services refuse commands that cannot be, and every face shows their answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from warrener.context import ResolvedEndpoints, connect_client, connect_store
from warrener.errors import UsageError
from warrener.operations.masking import Masker
from warrener.operations.roles import Role
from warrener.options import DEFAULT_REASON, parse_time, report_invalid_fields
from warrener.render.tones import Tone
from warrener_contracts.marks import marked_names

if TYPE_CHECKING:  # a command that reads needs no client
    from rich.console import RenderableType

    from warrener.gathering import QueryBroker
    from warrener_client import Client
    from warrener_store import Store

_MAX_AGE = 1.0  # seconds of what is known of schemas
K = TypeVar("K")
R = TypeVar("R")


class Backend:
    """The store, one client of the broker, and one connection that inspects it. Reads query the store; every
    change goes through the broker.

    `query_broker` has a connection that is open already; None: each explanation opens one. Readers of the
    store hide secrets by `learn`: `masker` alone knows no schema.
    """

    query_broker: "QueryBroker | None" = None

    def __init__(self, store: "Store | None", endpoints: ResolvedEndpoints, masker: Masker) -> None:
        self._store, self.endpoints, self.masker = store, endpoints, masker
        self._connections = AsyncExitStack()
        self._connecting, self._learning = asyncio.Lock(), asyncio.Lock()
        self._client: Client | None = None
        self._shared: dict[Any, Any] = {}
        self._learned_at = float("-inf")
        self._marks: dict[tuple[str, str, datetime], frozenset[str]] = {}  # of each announcement, read once

    @property
    def store(self) -> "Store":
        assert self._store is not None, "expected open_store before"
        return self._store

    @property
    def has_store(self) -> bool:
        return self._store is not None

    async def open_store(self) -> None:
        """Open the store: the command of a verb that needs the broker alone begins without one."""
        if self._store is None:
            self._store = await self._connections.enter_async_context(connect_store(self.endpoints))

    async def client(self) -> "Client":
        """Return the connected client of all verbs. Raises CommandError if the broker is away."""
        async with self._connecting:
            if self._client is None:
                self._client = await self._connections.enter_async_context(connect_client(self.endpoints))
            return self._client

    def shared(self, kind: Callable[[ResolvedEndpoints], K]) -> K:
        """Return the one connection of this kind, made at its first use and closed with the others."""
        if kind not in self._shared:
            made: Any = kind(self.endpoints)
            self._connections.push_async_callback(made.close)
            self._shared[kind] = made
        found: K = self._shared[kind]
        return found

    async def learn(self) -> Masker:
        """Return the masker, which knows the fields that the schemas of job types mark as secrets; as they
        were a second ago, or now."""
        async with self._learning:
            if monotonic() - self._learned_at > _MAX_AGE:
                rows = (await self.store.job_types()).values()
                versions = {(row.name, row.announced_by, row.announced_at): row for row in rows}
                self._marks = {
                    version: known
                    if (known := self._marks.get(version)) is not None
                    else marked_names(row.arguments_schema) | marked_names(row.result_schema)
                    for version, row in versions.items()
                }
                self.masker.learn({name: marks for (name, *_), marks in self._marks.items()})
                self._learned_at = monotonic()
        return self.masker

    async def now(self) -> datetime:
        """The time in UTC: by the store's clock, if it is open."""
        return datetime.now(UTC) if self._store is None else await self._store.time()

    async def close(self) -> None:
        """Disconnect from the broker, and from the store unless its opener has given it."""
        await self._connections.aclose()


# -- lists -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Flag:
    """Annotation of a field: its option on the command line, unless that is `--` and its name."""

    word: str
    short: str | None = None


Keys = Annotated[list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]
"""Keys of several things; a form with one gives a text."""
Limit = Annotated[int, Flag("--limit", "-n")]
Time = Annotated[datetime | None, BeforeValidator(parse_time)]  # a moment, or a time before now: 90s, 2h, P1D


class NounQuery(BaseModel):
    """The fields of a list's query; others are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ListQuery(NounQuery):
    """The page of a list."""

    model_config = ConfigDict(str_strip_whitespace=True)

    limit: Limit = Field(default=50, ge=1, le=1000, description="Maximum number of rows, the newest first.")
    after: str = Field(
        default="",
        max_length=400,
        description="Continue a list: the `next` of its last page, which the command prints as `more:`.",
    )


def cut_page(
    found: Sequence[R], limit: int, position: Callable[[R], tuple[datetime, object]]
) -> tuple[Sequence[R], str | None]:
    """Cut a page off its rows and the one behind them. Return it and its `next`, the position of its last."""
    shown = found[:limit]
    if len(found) == len(shown):
        return shown, None
    moment, key = position(shown[-1])
    return shown, f"{moment.isoformat()} {key}"


def read_position(text: str, make: Callable[[datetime, str], K]) -> K | None:
    """Read the position of a page's last row; None: the list begins. Raises CommandError."""
    if not text:
        return None
    moment, _, key = text.partition(" ")
    try:
        return make(datetime.fromisoformat(moment).astimezone(UTC), key)
    except ValueError:
        raise UsageError(
            f"after: expected the `next` of a page, got {text!r:.60}; begin at the first page"
        ) from None


def fields_from(model: type[BaseModel], row: object) -> dict[str, Any]:
    """The fields of a model that a row of the store has under the same names."""
    return {name: getattr(row, name) for name in model.model_fields if hasattr(row, name)}


# -- verbs -------------------------------------------------------------------------------------------------


TEXTS = {"texts": True}
"""Context of the validation of a form or a command, whose values are texts: a field that takes any JSON value
reads them."""


class ActionBody(BaseModel):
    """Fields of every action. `reason` stands in the audit log."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = Field(
        default="", description="Reason of the command (default: requested)."
    )

    @property
    def subject(self) -> str:
        return ""


class Selection(ActionBody):
    """The things of a verb over several: those of these ids, or all that meet the conditions."""

    ids: Keys = Field(default_factory=list[str], max_length=1000)

    @property
    def conditions(self) -> str:
        """The conditions in words."""
        return ""

    @property
    def subject(self) -> str:
        if self.ids:
            return self.ids[0] if len(self.ids) == 1 else f"{self.ids[0]} and {len(self.ids) - 1} more"
        return self.conditions


B = TypeVar("B", bound=ActionBody)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an action: a sentence, JSON for programs, and the page to go to afterwards.

    `unconfirmed`: a sentence in place of the common one, for an author who does not wait for the service.
    `shown`: a table for the terminal. `is_partial`: some of several things were refused.
    """

    sentence: str
    accepted: bool = True
    is_partial: bool = False
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    location: str | None = None
    unconfirmed: str = ""
    shown: "RenderableType | None" = None


@dataclass(frozen=True, slots=True)
class Preview:
    """The number of things that a verb would change, and groups of them with a word about each.

    `is_complete`: False if more may match, which a repetition of the verb takes.
    """

    total: int
    groups: Sequence[Mapping[str, Any]]
    is_complete: bool = True


class OutcomeBody(BaseModel):
    """The answer to a verb. `accepted` is null if its author did not wait for the service."""

    accepted: bool | None
    sentence: str
    details: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbCall(Generic[B]):
    """A use of a verb: its subject, author and checked fields.

    `reply_timeout`: seconds to wait for the service that carries it out; None: not at all. `progress` shows a
    line about work that takes long, which the caller waits for; None: it looks later.
    """

    backend: Backend
    key: str
    by: str
    body: B
    reply_timeout: float | None
    progress: Callable[[str], object] | None = None

    @property
    def reason(self) -> str:
        return self.body.reason or DEFAULT_REASON


@dataclass(frozen=True, slots=True)
class Verb(Generic[B]):
    """A verb: its word, its fields, its role, and the function that sends the command.

    The function raises CommandRefused with the answer of the service, and its docstring is the help of the
    command, with examples. `signed`: the command names its author, so that `--by` makes sense. `keys`: the
    field of the body with the keys of several things, in place of one. `preview`: the command shows that, and
    does nothing, without `--yes` or with `--dry-run`. `reads`: it needs the store too; False: its command
    goes without. `goes_on`: a sentence for an author who stops waiting; `{key}` is the subject.
    """

    word: str
    body: type[B]
    perform: Callable[[VerbCall[B]], Awaitable[Outcome]]
    role: Role = Role.OPERATOR
    signed: bool = False
    keys: str | None = None
    preview: Callable[[VerbCall[B]], Awaitable[Preview]] | None = None
    reads: bool = True
    goes_on: str = "what the broker has is carried out"

    async def carry_out(self, call: VerbCall[B]) -> Outcome:
        """Perform it. Raises CommandError for a subject that the wire has no room for."""
        with report_invalid_fields():
            return await self.perform(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A noun: `warrener {word} list|show|{verb}` and `/api/v1/{plural}`.

    `list` returns a model with the field `rows` (default: the plural) and, if it has pages, `next`. `columns`
    are those of the command's table: fields of a row, or functions of it. `lists_all`: without a limit the
    command lists all pages.
    """

    word: str
    plural: str
    key: str  # name of the field that identifies one
    key_help: str = ""
    query: type[BaseModel]
    list: Callable[[Backend, Any], Awaitable[BaseModel]]
    read: Callable[[Backend, str], Awaitable[BaseModel]] | None = None  # None: rows have all
    verbs: Sequence[Verb[Any]] = ()
    columns: Mapping[str, str | Callable[[Any], Any]]
    tones: Mapping[str, Tone] = field(default_factory=dict[str, Tone])  # of `state`
    empty: str  # sentence for an empty list
    rows: str = ""
    role: Role = Role.VIEWER  # of those who may list and read it
    command: str = ""  # its words on the command line, if they are not `word`
    uses_broker: bool = False  # reads query the broker too
    lists_all: bool = False

    def rows_of(self, page: BaseModel) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(page, self.rows or self.plural.replace("-", "_"))
        return rows
