"""Incidents: what happened, since when, how far their escalation policies are, and their verbs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from warrener.errors import NothingFound, UsageError
from warrener.operations import noun
from warrener.operations.masking import Masker
from warrener.render.tones import Tone
from warrener_contracts.fields import Duration, JsonObject, parse_duration
from warrener_contracts.json_safety import is_array, is_object
from warrener_store.incidents import rows

DEAD_JOBS = "job.dead"
"""The kind of incidents whose occurrences are dead jobs of one cause: its fingerprint is theirs."""
_MAX_OCCURRENCES = 50
_MAX_SEARCHED = 10_000
_MIN_PREFIX = 3  # characters of a fingerprint
_WHERE = "copy it from `warrener escalation list`"

IncidentState = Literal["open", "acknowledged", "snoozed", "failing", "closed"]
StepState = Literal["done", "next", "planned", "not needed"]


class IncidentsQuery(noun.ListQuery):
    """The incidents to list."""

    closed: Annotated[bool, noun.Flag("--all")] = Field(default=False, description="Also closed incidents.")


class Incident(BaseModel):
    """An incident. `text`: what was raised last, in a line."""

    fingerprint: str
    kind: str
    subject: str
    job_type: str | None
    text: str
    times: int
    first_seen_at: datetime
    last_seen_at: datetime
    state: IncidentState
    policy: str
    policy_history: list[rows.PolicyAdoption] = Field(
        description="All that it has followed, the present one last."
    )
    step: int = Field(description="Steps of the policy that are done.")
    wake_at: datetime | None = Field(description="When a supervisor looks at it again. None: when raised.")
    last_error: str | None = Field(description="Why the last try of its step failed.")
    acknowledged_by: str | None
    snoozed_until: datetime | None
    close_reason: str | None

    @property
    def about(self) -> str:
        return self.job_type or self.subject


class IncidentsPage(BaseModel):
    """A page of incidents, the last raised first. `next`: pass it as `after`."""

    incidents: list[Incident]
    next: str | None = None


class PolicyStep(BaseModel):
    """A step of an incident's policy. `at`: when it was done, or is due; `is_exact`: False if that was
    computed from the policy, which a held-up step delays."""

    number: int
    do: str
    words: str
    after: timedelta
    state: StepState
    at: datetime | None
    is_exact: bool


class ListedOccurrence(BaseModel):
    """One occurrence of an incident."""

    subject: str
    raised_at: datetime
    is_settled: bool


class IncidentDetails(Incident):
    """One incident."""

    sample: JsonObject
    round: int
    policy_version: str | None
    steps: list[PolicyStep]
    failed_tries: int
    acknowledged_at: datetime | None
    closed_at: datetime | None
    occurrences: list[ListedOccurrence]  # the first raised first
    has_more: bool


async def list_incidents(backend: noun.Backend, query: IncidentsQuery) -> IncidentsPage:
    """List the incidents: kind, subject, count, and the step of the escalation policy.

    $ warrener escalation list
    $ warrener escalation list --all --json | jq -r '.[].fingerprint'
    """
    now, masker = await backend.now(), (await backend.learn()).every
    after = noun.read_position(query.after, rows.IncidentPosition)
    which = rows.IncidentFilter(closed=query.closed, after=after, limit=query.limit + 1)
    found = await backend.store.escalations.incidents(which)
    shown, following = noun.cut_page(found, query.limit, lambda row: (row.last_seen_at, row.fingerprint))
    incidents = [Incident.model_validate(_fields(row, now, masker)) for row in shown]
    return IncidentsPage(incidents=incidents, next=following)


def _fields(row: rows.IncidentRow, now: datetime, masker: Masker) -> dict[str, Any]:
    adoptions = [] if row.policy_history is None else list(row.policy_history.adoptions)
    return noun.fields_from(IncidentDetails, row) | {
        "text": masker.text(_text(row.sample)),
        "sample": masker.value(row.sample),
        "state": _state(row, now),
        "policy": adoptions[-1].name if adoptions else "",
        "policy_history": adoptions,
        "last_error": None if row.last_error is None else masker.text(row.last_error),
    }


def _state(row: rows.IncidentRow, now: datetime) -> IncidentState:
    if row.closed_at is not None:
        return "closed"
    if row.snoozed_until is not None and row.snoozed_until > now:
        return "snoozed"
    if row.last_error is not None:
        return "failing"
    return "open" if row.acknowledged_by is None else "acknowledged"


def _text(sample: Mapping[str, Any]) -> str:
    error: object = sample.get("error")
    if is_object(error) and error.get("type"):
        return " ".join(f"{error['type']}: {error.get('message', '')}".split())[:300]
    return " ".join(str(sample.get("text", "")).split())[:300]


async def _fingerprint(backend: noun.Backend, text: str) -> str:
    """Complete the fingerprint of an open incident; a text that begins none stands for itself. Raises
    CommandError for the beginning of several."""
    incidents = backend.store.escalations
    if await incidents.incidents(rows.IncidentFilter(fingerprints=[text], closed=True)):
        return text
    searched = await incidents.incidents(rows.IncidentFilter(limit=_MAX_SEARCHED))
    found = [row.fingerprint for row in searched if row.fingerprint.startswith(text)]
    if found and (len(text) < _MIN_PREFIX or len(found) > 1):
        raise UsageError(
            f"expected one open incident whose fingerprint begins with {text!r:.210}, got {len(found)}",
            do=_WHERE,
        )
    return found[0] if found else text


async def read_incident(backend: noun.Backend, fingerprint: str) -> IncidentDetails:
    """Show one incident with the steps of its policy, and what was raised.

    $ warrener escalation show 3f9a1c77e0b2
    """
    incidents, now = backend.store.escalations, await backend.now()
    whole = await _fingerprint(backend, fingerprint)
    known = await incidents.incidents(rows.IncidentFilter(fingerprints=[whole], closed=True))
    if not known:
        wanted = f"expected one open incident whose fingerprint begins with {fingerprint!r:.210}, got none"
        raise NothingFound(wanted, do=_WHERE)
    row = known[0]
    versions = await incidents.policies() if row.policy_version else []
    found = await incidents.pending(row.fingerprint, rows.ALL_STEPS_DONE + 1, _MAX_OCCURRENCES + 1)
    fields = _fields(row, now, (await backend.learn()).every) | {
        "steps": policy_steps(row, versions),
        "occurrences": [
            ListedOccurrence(
                subject=one.subject, raised_at=one.raised_at, is_settled=one.steps_done >= rows.ALL_STEPS_DONE
            )
            for one in found[:_MAX_OCCURRENCES]
        ],
        "has_more": len(found) > _MAX_OCCURRENCES,
    }
    return IncidentDetails.model_validate(fields)


# -- steps -------------------------------------------------------------------------------------------------


def policy_steps(row: rows.IncidentRow, versions: list[rows.PolicyVersionRow]) -> list[PolicyStep]:
    """The steps of the policy that an incident follows, with their times. Pure.

    The store has the time of the next step alone. The step before it was done that long ago as the next one
    waits; the times of earlier steps follow from the policy.
    """
    version = next((one for one in versions if one.version == row.policy_version), None)
    policy: object = version.definition.get("policy") if version is not None else None
    given: object = policy.get("steps") if is_object(policy) else None
    steps = [step for step in given if is_object(step)] if is_array(given) else []
    waits = [_duration(step.get("after")) for step in steps]
    is_waiting = row.step < len(waits) and not row.failed_tries  # for the time since the step before
    found, at, is_over = list[PolicyStep](), row.first_seen_at, row.closed_at is not None
    for place, step in enumerate(steps):
        at, is_next, is_done = at + waits[place], place == row.step, place < row.step
        is_exact = is_next
        if is_next and row.due_at is not None:
            at = row.due_at
        elif place == row.step - 1 and is_waiting and row.due_at is not None:
            at, is_exact = row.due_at - waits[row.step], True
        ahead: StepState = "not needed" if is_over else "next" if is_next else "planned"
        found.append(
            PolicyStep(
                number=place + 1,
                do=str(step.get("do", "")),
                words=_step_words(step),
                after=waits[place],
                state="done" if is_done else ahead,
                at=None if is_over and not is_done else at,
                is_exact=is_exact,
            )
        )
    return found


def _step_words(step: Mapping[str, Any]) -> str:
    words = {
        "alert": f"alert {', '.join(map(str, step.get('to') or ['log']))}",
        "digest": f"list it in the digest {step.get('into', 'daily')}",
        "retry": "request the dead jobs once more",
        "park": "leave the dead jobs as they are",
        "compensate": f"request {step.get('job_type')} for each dead job",
        "close": "close the incident",
    }
    do = str(step.get("do", ""))
    return words.get(do, do)


def _duration(text: object) -> timedelta:
    try:
        return parse_duration(text) if isinstance(text, str) else timedelta(0)
    except ValueError:
        return timedelta(0)


# -- verbs -------------------------------------------------------------------------------------------------


class SnoozeIncident(noun.ActionBody):
    """Snooze an incident."""

    snooze_for: Annotated[Duration, noun.Flag("--for")] = Field(
        description="Time without steps: 30m, 8h; 0s ends the snooze."
    )


async def acknowledge(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Acknowledge an incident: no further alerts; all other steps of its policy go on.

    $ warrener escalation ack 3f9a1c77e0b2
    $ warrener escalation ack 3f9a --by ann@example.org
    """
    fingerprint = await _fingerprint(call.backend, call.key)
    client = await call.backend.client()
    await client.acknowledge_incident(fingerprint, by=call.by, reply_timeout=call.reply_timeout)
    return _outcome(fingerprint, f"acknowledged by {call.by}: no further alerts, other steps go on")


async def snooze(call: noun.VerbCall[SnoozeIncident]) -> noun.Outcome:
    """Snooze an incident: no step of its policy is taken for a while.

    $ warrener escalation snooze 3f9a --for 2h
    $ warrener escalation snooze 3f9a --for 0s
    """
    fingerprint = await _fingerprint(call.backend, call.key)
    client = await call.backend.client()
    length = call.body.snooze_for
    until = await call.backend.now() + length
    await client.snooze_incident(fingerprint, until, by=call.by, reply_timeout=call.reply_timeout)
    words = f"snoozed until {until:%Y-%m-%d %H:%M:%S} UTC" if length else "the snooze is over"
    return _outcome(fingerprint, words, until=until.isoformat())


async def close(call: noun.VerbCall[noun.ActionBody]) -> noun.Outcome:
    """Close an incident. Raised again, it begins at the first step.

    $ warrener escalation close 3f9a --reason "the disk has been replaced"
    """
    fingerprint = await _fingerprint(call.backend, call.key)
    client = await call.backend.client()
    await client.close_incident(fingerprint, by=call.by, reason=call.reason, reply_timeout=call.reply_timeout)
    return _outcome(fingerprint, "closed; raised again, it begins at its first step")


def _outcome(fingerprint: str, sentence: str, **details: str) -> noun.Outcome:
    return noun.Outcome(sentence=sentence, details={"fingerprint": fingerprint, **details})


def _state_detail(one: Incident) -> str:
    match one.state:
        case "closed":
            return one.close_reason or ""
        case "failing":
            return f"step {one.step + 1}: {one.last_error}"
        case "acknowledged":
            return f"by {one.acknowledged_by}: {one.text}"
        case _:
            return one.text


def _policy(one: Incident) -> str:
    """The name and version of the policy that an incident follows, and the number of its restarts."""
    if not one.policy_history:
        return ""
    *earlier, current = one.policy_history
    restarts = f", restart {len(earlier)}" if earlier else ""
    return f"{current.name}@{current.version[:6]}{restarts}"


STEP_TONES: Mapping[StepState, Tone] = {
    "done": Tone.GOOD,
    "next": Tone.LIVE,
    "planned": Tone.SOFT,
    "not needed": Tone.SOFT,
}
INCIDENTS = noun.Noun(
    word="incident",
    command="escalation",
    plural="incidents",
    key="fingerprint",
    key_help="Fingerprint of the incident; of an open one its beginning is enough.",
    query=IncidentsQuery,
    list=list_incidents,
    read=read_incident,
    verbs=(
        noun.Verb("acknowledge", noun.ActionBody, acknowledge, signed=True),
        noun.Verb("snooze", SnoozeIncident, snooze, signed=True),
        noun.Verb("close", noun.ActionBody, close, signed=True),
    ),
    columns={
        "incident": "fingerprint",
        "what": "kind",
        "about": "about",
        "times": "times",
        "first": "first_seen_at",
        "last": "last_seen_at",
        "policy": _policy,
        "state": "state",
        "next step": "wake_at",
        "said": _state_detail,
    },
    tones={
        "open": Tone.ERROR,
        "failing": Tone.ERROR,
        "acknowledged": Tone.LIVE,
        "snoozed": Tone.SOFT,
        "closed": Tone.GOOD,
    },
    empty="No incident is open.",
)
