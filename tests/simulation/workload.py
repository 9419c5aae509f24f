"""What a simulation is asked to do: jobs of every kind, repeats, cancels, and messages nobody can
understand."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from tests.simulation.world import World

from warrener_contracts import events, topology
from warrener_contracts.messages import Message, build_message

KINDS: tuple[tuple[str, Callable[[World], dict[str, Any]]], ...] = (
    ("quick", lambda world: {"number": world.dice.randint(0, 9)}),
    ("slow", lambda world: {"seconds": world.dice.choice((0.3, 2.0, 15.0, 45.0))}),
    ("flaky", lambda world: {"failures": world.dice.randint(1, 3)}),
    ("parent", lambda world: {"children": world.dice.randint(1, 3)}),
    ("doomed", lambda _: {}),
    ("hanging", lambda _: {}),
    ("grower", lambda world: {"left": world.dice.randint(1, 12)}),
    ("climber", lambda _: {}),
    ("moody", lambda _: {}),
    ("sleepy", lambda _: {}),
)

_NOBODYS_JOB = "01890000-0000-7000-8000-000000000001"


def _event(**fields: Any) -> bytes:
    whole: dict[str, Any] = {"specversion": "1.0", "source": "poison", "type": "job.requested.v1", "data": {}}
    return json.dumps({**whole, **fields}).encode()


POISON: dict[events.Reason, bytes] = {
    events.Reason.NOT_JSON: b"{broken",
    events.Reason.NOT_AN_EVENT: b'{"hello": "there"}',
    events.Reason.UNKNOWN_VERSION: _event(id="p1", type="job.requested.v9"),
    events.Reason.MISSING_ID: _event(data={"job_type": "quick"}),
    events.Reason.BAD_FIELDS: _event(id="p2"),
    events.Reason.UNKNOWN_JOB_TYPE: _event(id="p3", data={"job_type": "nobody.can"}),
    events.Reason.BAD_ARGUMENTS: _event(id="p4", data={"job_type": "quick", "arguments": {"number": "many"}}),
    events.Reason.WRONG_QUEUE: _event(
        id="p5",
        type="job.dead.v1",
        data={"job_id": _NOBODYS_JOB, "job_type": "quick", "attempts": 1, "reason": "none"},
    ),
    events.Reason.ROUTING_KEY_MISMATCH: _event(id="p6", data={"job_type": "quick"}),
}
"""Each of these must be parked with its reason, however often everything dies."""
_KEYS = {events.Reason.UNKNOWN_JOB_TYPE: "nobody.can", events.Reason.BAD_ARGUMENTS: "quick"}
"""The routing keys of requests; any other poison comes under a key of its own."""


class Workload:
    """Asks, and remembers what the broker has confirmed: that must come to an end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.accepted: set[UUID] = set()
        self.cancelled_roots: set[UUID] = set()

    async def publish_requests(self, jobs: int) -> None:
        """Spread `jobs` requests, some repeats, some cancels and all the poison over time."""
        poison = list(POISON.items())
        for _ in range(jobs):
            await self._world.clock.sleep(self._world.dice.choice((0.0, 0.1, 1.0, 4.0)))
            await self._one()
            if poison:
                await self._world.publish(self._poisoned(*poison.pop()))
        for reason, body in poison:
            await self._world.publish(self._poisoned(reason, body))

    async def _one(self) -> None:
        request = self._request()
        await self._world.publish(build_message(request))
        job_id = UUID(request.id)
        self.accepted.add(job_id)
        if self._world.dice.random() < 0.2:
            await self._world.publish(build_message(request)._replace(message_id=f"again-{request.id}"))
        if self._world.dice.random() < 0.2:
            await self._world.clock.sleep(self._world.dice.choice((0.0, 0.5, 5.0)))
            await self._world.publish(build_message(self._cancel(job_id)))
        elif self._world.dice.random() < 0.1:  # before its request, which may never have come by then
            await self._cancel_before()

    async def _cancel_before(self) -> None:
        request = self._request()
        job_id = UUID(request.id)
        await self._world.publish(build_message(self._cancel(job_id)))
        await self._world.clock.sleep(self._world.dice.choice((0.0, 0.5)))
        await self._world.publish(build_message(request))
        self.accepted.add(job_id)

    def _request(self) -> events.JobRequested:
        dice = self._world.dice
        kind, arguments = dice.choice(KINDS)
        data = events.JobRequestedData(
            job_type=kind,
            arguments=arguments(self._world),
            delay=timedelta(seconds=dice.choice((2, 30))) if dice.random() < 0.2 else None,
            expires_after=timedelta(seconds=dice.choice((1, 20))) if dice.random() < 0.15 else None,
            reply_to="asker" if dice.random() < 0.5 else None,
        )
        return events.JobRequested(id=str(self._world.entropy.new_id()), source="simulation", data=data)

    def _cancel(self, job_id: UUID) -> events.JobCancelRequested:
        tree = self._world.dice.random() < 0.5
        if tree:
            self.cancelled_roots.add(job_id)
        data = events.JobCancelRequestedData(job_id=job_id, tree=tree)
        return events.JobCancelRequested(id=f"cancel-{job_id}", source="simulation", data=data)

    def _poisoned(self, reason: events.Reason, body: bytes) -> Message:
        key, message_id = _KEYS.get(reason, "poison"), str(self._world.entropy.new_id())
        content_type = "application/cloudevents+json"
        return Message(topology.REQUESTS, key, body, content_type, message_id, "poison", {}, mandatory=True)


Fields = Mapping[str, Any]


def job_request(job_id: UUID, job_type: str, **fields: Any) -> Message:
    event = {"id": str(job_id), "source": "test", "data": {"job_type": job_type, **fields}}
    return build_message(events.JobRequested.model_validate(event))


def request(
    world: World, kind: str, fields: Fields = MappingProxyType({}), **arguments: Any
) -> tuple[UUID, Message]:
    """A request for a job of a new id, with these arguments and these other fields of its data."""
    job_id = world.entropy.new_id()
    return job_id, job_request(job_id, kind, arguments=arguments, **fields)


def slow_request(job_id: UUID, seconds: float = 0.1) -> Message:
    return job_request(job_id, "slow", arguments={"seconds": seconds})


def cancel_request(job_id: UUID, **fields: Any) -> Message:
    event = {"id": f"cancel-{job_id}", "source": "test", "data": {"job_id": job_id, **fields}}
    return build_message(events.JobCancelRequested.model_validate(event))
