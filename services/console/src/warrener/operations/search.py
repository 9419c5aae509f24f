"""One search over all that people name: jobs by id, key and argument, parked messages, schedules, queues and
job types.

Ids, keys and names go by indexes or small tables, however many jobs there are. No index serves texts within
arguments, errors and messages: the newest alone are compared, and the answer says so.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

from pydantic import BaseModel, Field, StringConstraints

from warrener.errors import UsageError
from warrener.explanations.facts import counted
from warrener.operations.agents import named_queues
from warrener.operations.job_search import JobSearch, find_jobs
from warrener.operations.jobs import job_of
from warrener.operations.masking import Masker
from warrener.operations.noun import Backend, Limit, NounQuery
from warrener.render.schedules import rule_text
from warrener.render.screen import one_line
from warrener_contracts.identity import job_id_of
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.state_machine import TERMINAL
from warrener_store.jobs.job_search import MIN_LENGTH, id_part
from warrener_store.jobs.rows import JobFilter, JobRow, StateCount
from warrener_store.parked.rows import ALL_PARKED, ParkedAt, ParkedFilter, ParkedMessage
from warrener_store.schedules.rows import ScheduleFilter, ScheduleRow

MAX_JOBS = 1000  # jobs whose arguments and errors are compared, as many as a page of jobs compares
MAX_PARKED = 200
_MAX_BYTES = 16 << 20  # of bodies of parked messages
_PARKED_PAGE = 20
_MAX_SUGGESTIONS, _MAX_SCHEDULES = 3, 1000
_MAX_LINE, _BEFORE_TEXT = 120, 30  # characters

Kind = Literal["job_type", "queue", "schedule", "job", "parked"]
Match = Literal["whole", "beginning", "part"]
_KINDS, _MATCHES = get_args(Kind), get_args(Match)
_FACES: dict[Kind, tuple[str, str]] = {
    "job_type": ("jobs --type", "job-types"),
    "queue": ("queues", "queues"),
    "schedule": ("schedule show", "schedules"),
    "job": ("job", "jobs"),
    "parked": ("parked show", "parked"),
}
"""The command that shows one thing of a kind, and the section of the console."""


class SearchQuery(NounQuery):
    """The text to find."""

    q: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = Field(
        default="",
        description="Id of a job or of its request (or eight characters of it), idempotency key, value of an "
        "argument (order=17 too), part of an error, of a parked message, or of a name.",
    )
    limit: Limit = Field(default=10, ge=1, le=100, description="Maximum number of hits of each kind.")


class Hit(BaseModel):
    """A thing that has the text."""

    kind: Kind
    name: str = Field(description="Id of a job or of a parked message; the name of another thing.")
    match: Match = Field(description="The text is the whole of what it stands in, its beginning, or a part.")
    where: str = Field(description="The place of the text, such as `argument order=17`.")
    about: str = Field(description="The thing in a line.")
    command: str = Field(description="The command that shows it.")
    path: str = Field(description="Its page in the console.")


class SearchPage(BaseModel):
    """Hits, the best first: whole texts before beginnings and parts, names before contents. The same as
    `warrener find --json`."""

    hits: list[Hit]
    is_complete: bool = Field(description="False if a limit, or the age of a job or message, hides others.")
    note: str = Field(description="What was not compared, or that there is no hit; empty if all is shown.")
    suggestions: list[str] = Field(description="Without a hit: names that are spelled alike.")


async def search(backend: Backend, query: SearchQuery) -> SearchPage:
    """Find a text among jobs, parked messages, schedules, queues and job types.

    Ids, keys and names are found however old they are; arguments, errors, sources and traces among the newest
    1,000 jobs, texts within parked messages among the newest 200. Exit code 1 if there is no hit.

    $ warrener find 456789ab
    $ warrener find order=17
    $ warrener find flights.load --json | jq -r '.hits[].command'
    """
    text = query.q
    if not text:
        raise UsageError(
            "q: expected a text, got none; give an id, a key, the value of an argument, or a part of a name"
        )
    counts = await backend.store.count_jobs()
    named = [await _job_types(backend, text, counts), await _queues(backend, text, counts)]
    named.append(await _schedules(backend, text, query.limit))
    jobs, older_jobs = await _jobs(backend, text, query.limit)
    parked, older_parked = await _parked(backend, text, query.limit)
    hits, is_cut = rank([*named, jobs, parked], query.limit)
    suggestions = [] if hits else await _suggest(backend, text, counts)
    unread = [each for each in (older_jobs, older_parked) if each]
    return SearchPage(
        hits=hits,
        is_complete=not is_cut and not unread,
        note=_note(text, hits, unread, suggestions, is_cut=is_cut),
        suggestions=suggestions,
    )


def rank(kinds: Sequence[Sequence[Hit]], limit: int) -> tuple[list[Hit], bool]:
    """The best hits of each kind, and True if there are more. Pure."""
    ranked = (sorted(hits, key=lambda hit: _MATCHES.index(hit.match)) for hits in kinds)
    best = [hit for hits in ranked for hit in hits[:limit]]
    best.sort(key=lambda hit: (_MATCHES.index(hit.match), _KINDS.index(hit.kind)))
    return best, any(len(hits) > limit for hits in kinds)


def compare(text: str, value: str) -> Match | None:
    """How a value has the text, in upper or lower case; None: not at all. Pure."""
    wanted, there = text.casefold(), value.casefold()
    if wanted not in there:
        return None
    return "whole" if wanted == there else "beginning" if there.startswith(wanted) else "part"


def _note(
    text: str, hits: Sequence[Hit], unread: Sequence[str], suggestions: Sequence[str], *, is_cut: bool
) -> str:
    limited = f"texts without an index were looked for in {' and '.join(unread)} alone" if unread else ""
    if hits:
        cut = "there are more hits of a kind than the limit" if is_cut else ""
        return "; ".join(filter(None, (cut, limited)))
    do = (
        f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else "`warrener jobs --argument NAME=VALUE` looks further back"
        if unread
        else "give eight characters of an id or more, or a shorter part of a name"
    )
    rest = f" ({limited})" if limited else ""
    return f"expected an id, a key, an argument or a name, got {text!r}: nothing has it{rest}; {do}"


# -- names -------------------------------------------------------------------------------------------------


async def _job_types(backend: Backend, text: str, counts: Sequence[StateCount]) -> list[Hit]:
    declared = await backend.store.job_types()
    hits: list[Hit] = []
    for name in sorted({*declared, *(count.job_type for count in counts)}):
        if match := compare(text, name):
            row = declared.get(name)
            description = "no agent announces it" if row is None else row.description or f"queue {row.queue}"
            about = one_line(description).rstrip(".")[:_MAX_LINE]
            live = _live(count for count in counts if count.job_type == name)
            hits.append(_hit("job_type", name, match, f"{about}; {live}"))
    return hits


async def _queues(backend: Backend, text: str, counts: Sequence[StateCount]) -> list[Hit]:
    names = sorted({count.queue for count in counts} | await named_queues(backend))
    return [
        _hit("queue", name, match, _live(count for count in counts if count.queue == name))
        for name in names
        if (match := compare(text, name))
    ]


async def _schedules(backend: Backend, text: str, limit: int) -> list[Hit]:
    rows: dict[str, ScheduleRow] = dict(await backend.store.schedules([text]))
    alike = await backend.store.list_schedules(ScheduleFilter(text=text.lower(), limit=limit + 1))
    rows |= {row.name: row for row in alike}
    hits: list[Hit] = []
    for name, row in rows.items():
        about = f"{row.definition.job_type}, {'paused' if row.paused else rule_text(row.definition.rule)}"
        hits.append(_hit("schedule", name, compare(text, name) or "part", about))
    return hits


def _live(counts: Iterable[StateCount]) -> str:
    jobs = sum(max(count.jobs, 0) for count in counts if count.state not in TERMINAL)
    return f"{counted(jobs, 'job')} not over"


def _hit(kind: Kind, name: str, match: Match, about: str, where: str = "name") -> Hit:
    command, section = _FACES[kind]
    return Hit(
        kind=kind,
        name=name,
        match=match,
        where=where,
        about=about,
        command=f"warrener {command} {shlex.quote(name)}",
        path=f"/{section}/{quote(name)}",
    )


async def _suggest(backend: Backend, text: str, counts: Sequence[StateCount]) -> list[str]:
    schedules = await backend.store.list_schedules(ScheduleFilter(limit=_MAX_SCHEDULES))
    names = {row.name for row in schedules} | await named_queues(backend)
    names |= {name for count in counts for name in (count.job_type, count.queue)}
    names |= (await backend.store.job_types()).keys()
    return get_close_matches(text.lower(), sorted(names), _MAX_SUGGESTIONS)


# -- jobs --------------------------------------------------------------------------------------------------


async def _jobs(backend: Backend, text: str, limit: int) -> tuple[list[Hit], str]:
    """The jobs that the text names, by indexes, and then the newest ones that have it elsewhere.

    If older ones were not compared, also which were.
    """
    masker = await backend.learn()
    named = await backend.store.find_jobs(text, limit + 1)
    places = {row.job_id: (row, *_place_of_id(row, text)) for row in named}

    def has_text(row: JobRow) -> bool:
        place = None if row.job_id in places else find_in_job(row, text, masker)
        if place is not None:
            places[row.job_id] = (row, *place)
        return place is not None

    newest = JobSearch(JobFilter(limit=MAX_JOBS), matching=has_text)
    found = await find_jobs(backend.store, newest, max_examined=MAX_JOBS)
    best = sorted(places.values(), key=lambda place: _MATCHES.index(place[1]))[: limit + 1]
    hits = [_job_hit(row, match, where, masker) for row, match, where in best]
    return hits, "" if found.is_complete else f"the newest {MAX_JOBS:,} jobs"


def _place_of_id(row: JobRow, text: str) -> tuple[Match, str]:
    """How the text names a job that the store has found by it."""
    if row.idempotency_key == text:
        return "whole", "idempotency key"
    if row.job_id == job_id_of(row.source, text):
        return "whole", "id" if id_part(text) == row.job_id.hex else "id of its request"
    return ("beginning" if row.job_id.hex.startswith(id_part(text) or "-") else "part"), "id"


def find_in_job(row: JobRow, text: str, masker: Masker) -> tuple[Match, str] | None:
    """The place of the text in arguments, error, key, source and trace; hidden values have none. Pure."""
    # Few rows have the text: only those are masked, which costs more than the comparison.
    hidden = _texts_of(row, text, masker.of(row.job_type))
    return _first_place(_texts_of(row, text), text) and _first_place(hidden, text)


def _first_place(texts: Iterable[tuple[str, str, str]], text: str) -> tuple[Match, str] | None:
    """The first whole text, or the first part of one."""
    found: tuple[Match, str] | None = None
    for label, name, value in texts:
        shown = f"{name}={value}" if name else value
        if (match := compare(text, shown)) is None:
            continue
        where = f"{label} {excerpt(shown, text)}"
        if "whole" in (match, compare(text, value)):
            return "whole", where
        found = found or ("part", where)
    return found


def _texts_of(row: JobRow, text: str, masker: Masker | None = None) -> Iterator[tuple[str, str, str]]:
    """The texts of a job: what each is, its name among several, and its value."""
    for name, value in _values("", masker.value(row.arguments) if masker else row.arguments):
        yield "argument", name, value
    if row.error is not None:
        error = f"{row.error.type}: {row.error.message}"
        yield "error", "", masker.text(error) if masker else error
    yield "source", "", row.source
    yield "idempotency key", "", row.idempotency_key or ""
    if row.traceparent is not None and id_part(text):
        yield "trace", "", row.traceparent.split("-")[1]


def _values(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The values of a document by their names; dots lead into objects."""
    if is_object(value):
        for key, one in value.items():
            yield from _values(f"{name}.{key}" if name else key, one)
    elif is_array(value):
        for one in value:
            yield from _values(name, one)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)


def excerpt(value: str, text: str) -> str:
    """The line around the text in a value. Pure."""
    at = max(value.casefold().find(text.casefold()) - _BEFORE_TEXT, 0)
    part = one_line(value[at : at + _MAX_LINE])
    return f"{'…' if at else ''}{part}{'…' if at + _MAX_LINE < len(value) else ''}"


def _job_hit(row: JobRow, match: Match, where: str, masker: Masker) -> Hit:
    job = job_of(row, masker)
    why = f": {one_line(job.why)[:_MAX_LINE]}" if job.why else ""
    return _hit("job", str(row.job_id), match, f"{row.job_type}, {row.state.value}{why}", where)


# -- parked messages ---------------------------------------------------------------------------------------


async def _parked(backend: Backend, text: str, limit: int) -> tuple[list[Hit], str]:
    """The message of this id, and the newest ones that have the text, until there are enough. As for jobs."""
    hits = [
        _parked_hit(one, "whole", "id") for one in await backend.store.parked(ParkedFilter(ids=[text]), 1)
    ]
    after, masker = None, (await backend.learn()).every
    read = size = 0
    while read < MAX_PARKED and size < _MAX_BYTES and len(hits) <= limit:
        page = await backend.store.parked(ALL_PARKED, _PARKED_PAGE, after)
        hits += [
            _parked_hit(one, "part", where)
            for one in page
            if one.parked_id != text and (where := find_in_message(one, text, masker))
        ]
        if len(page) < _PARKED_PAGE:
            return hits, ""
        after = ParkedAt(page[-1].parked_at, page[-1].parked_id)
        read, size = read + len(page), size + sum(len(one.body) for one in page)
    return hits, "" if len(hits) > limit else f"the newest {read:,} parked messages"


def find_in_message(message: ParkedMessage, text: str, masker: Masker) -> str | None:
    """The line of a parked message that has the text, if one has it without hidden values. Pure."""
    parked_id = message.parked_id if len(text) >= MIN_LENGTH else ""
    for given in (parked_id, message.detail, message.body.decode(errors="replace")):
        if compare(text, given) and compare(text, shown := masker.body(given)):
            return excerpt(shown, text)
    return None


def _parked_hit(message: ParkedMessage, match: Match, where: str) -> Hit:
    return _hit("parked", message.parked_id, match, f"{message.reason} in {message.queue}", where)
