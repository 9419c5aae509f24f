"""Gates of limits: their slots, who holds them and who waits, and their verbs."""

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel, Field

from warrener.errors import NothingFound
from warrener.operations.noun import ActionBody, Backend, ListQuery, Noun, Outcome, Verb, VerbCall
from warrener_store.gates.rows import MAX_COUNTED, GateRow

if TYPE_CHECKING:
    from warrener.operations.masking import Masker

_MAX_SHOWN = 100  # holders, and jobs of a line


class Gate(BaseModel):
    """A gate that jobs pass: of a job type, a pool, a queue or a map."""

    name: str
    slots: int = Field(description="Jobs that are dispatched at once.")
    announced: int = Field(description="The number of the newest announcement.")
    manual: bool = Field(description="True if a person has set the number: it holds until a reset.")
    held: int = Field(description="Slots that jobs have, also those beyond a number that was lowered.")
    waiting: int = Field(description=f"Jobs in its line, counted up to {MAX_COUNTED}.")


class GatesQuery(ListQuery):
    """All gates that were used within the hour, or are in use."""


class GatesPage(BaseModel):
    """Gates by name."""

    gates: list[Gate]
    next: str | None


class GateHolder(BaseModel):
    """A job that has a slot."""

    job_id: UUID
    number: int
    attempt: int
    since: datetime


class GateWaitingJob(BaseModel):
    """A job in the line of a gate."""

    job_id: UUID
    since: datetime


class GateDetails(Gate):
    """A gate with the first of its holders and of its line."""

    holders: list[GateHolder]
    line: list[GateWaitingJob]


async def list_gates(backend: Backend, query: GatesQuery) -> GatesPage:
    """List the gates of limits: slots, jobs that hold them, jobs that wait.

    $ warrener gate list
    $ warrener gate list --json | jq -r '.[] | select(.waiting > 0).name'
    """
    masker = await backend.learn()
    rows = await backend.store.gates_from(query.after, query.limit + 1)
    after = rows[query.limit].gate if len(rows) > query.limit else None
    return GatesPage(gates=[Gate(**_fields(row, masker)) for row in rows[: query.limit]], next=after)


async def read_gate(backend: Backend, name: str) -> GateDetails:
    """Show one gate: its slots, the jobs that hold them, and the first of its line.

    $ warrener gate show pool/crm/acme
    """
    store = backend.store
    row = next((row for row in await store.gates_from(name, 1) if row.gate == name), None)
    if row is None:
        raise NothingFound(f"expected the name of a gate, got {name}; see `warrener gate list`")
    slots = await store.slots_of(name, _MAX_SHOWN)
    return GateDetails(
        **_fields(row, await backend.learn()),
        holders=[
            GateHolder(job_id=one.job_id, number=one.number, attempt=one.attempt, since=one.taken_at)
            for one in slots
        ],
        line=[
            GateWaitingJob(job_id=one.job_id, since=one.since)
            for one in await store.first_waiters(name, _MAX_SHOWN)
        ],
    )


def _fields(row: GateRow, masker: "Masker") -> dict[str, Any]:
    return {
        "name": masker.text(row.gate),
        "slots": row.set_slots or row.slots,
        "announced": row.slots,
        "manual": row.set_slots is not None,
        "held": row.held,
        "waiting": row.waiting,
    }


class SetGate(ActionBody):
    """Set the slots of a gate."""

    slots: int = Field(ge=1, le=10_000, description="Number of jobs that are dispatched at once.")


async def set_gate(call: VerbCall[SetGate]) -> Outcome:
    """Set how many jobs a gate lets through at once, whatever agents announce. Those that run go on.

    $ warrener gate set pool/crm --slots 2 --reason "their side is slow today"
    """
    await _send(call, call.body.slots)
    return Outcome(sentence=f"{call.key} has {call.body.slots} slots until a reset; holders go on")


async def reset_gate(call: VerbCall[ActionBody]) -> Outcome:
    """Have a gate as many slots as its job type announces again.

    $ warrener gate reset pool/crm
    """
    await _send(call, None)
    return Outcome(sentence=f"{call.key} has the slots that its job type announces")


async def _send(call: "VerbCall[SetGate] | VerbCall[ActionBody]", slots: int | None) -> None:
    client = await call.backend.client()
    await client.set_gate(call.key, slots, by=call.by, reason=call.reason, reply_timeout=call.reply_timeout)


GATES = Noun(
    word="gate",
    plural="gates",
    key="name",
    key_help="`job/<job type>`, `pool/<name>` or `queue/<name>`, each with `/<key>` if the limit has one.",
    query=GatesQuery,
    list=list_gates,
    read=read_gate,
    verbs=(
        Verb("set", SetGate, set_gate, signed=True, reads=False),
        Verb("reset", ActionBody, reset_gate, signed=True, reads=False),
    ),
    columns={
        "gate": "name",
        "slots": "slots",
        "held": "held",
        "waiting": "waiting",
        "by hand": lambda one: "yes" if one.manual else "",
    },
    empty="No job with a limit has come within the hour.",
)
