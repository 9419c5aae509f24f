"""Where answers are matched with those who wait for them. Does no I/O."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from warrener_client.errors import BadRequest
from warrener_client.pending_requests import NO_REPLY, Answer, PendingRequest
from warrener_client.requests import with_reply_to
from warrener_contracts.events import (
    Event,
    JobDeduplicatedData,
    JobFinishedData,
    JobRejectedData,
    JobWaitingData,
    JsonObject,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.messages import Message


class ReplyRouter:
    """Knows every request whose handle somebody still holds."""

    def __init__(self, address: str) -> None:
        self._address = address  # where answers come to
        self.generation = 0
        self._requested: WeakValueDictionary[UUID, PendingRequest] = WeakValueDictionary()
        self._deduplicated: dict[UUID, WeakSet[PendingRequest]] = {}
        self._awaited: set[PendingRequest] = set()
        self._uncertain: set[PendingRequest] = set()

    def register(
        self, job_id: UUID, message: Message, now: float, *, wants_reply: bool = True
    ) -> PendingRequest:
        """The pending entry of this request; a repeat under the same id shares that of the first.

        `wants_reply`: the request says where its answer goes.
        """
        known = self._requested.get(job_id)
        if known is None:
            known = PendingRequest(job_id, message, self.generation if wants_reply else NO_REPLY, now)
            self._requested[job_id] = known
        elif _content(known.message) != _content(message):
            raise BadRequest(
                f"expected the same content under the same id, got another request under {job_id}: "
                "leave the id out, or ask for the same thing"
            )
        return known

    def resolve(self, event: Event[Any]) -> bool:
        """Match one answer; False where nobody asks for it any more, or it is no answer."""
        data: object = event.data
        if isinstance(data, JobFinishedData):
            return self._settle(data.job_id, data)
        if isinstance(data, JobRejectedData):
            return self._settle(job_id_of(data.request_source, data.request_id), data)
        if isinstance(data, JobDeduplicatedData):
            return self._redirect(data)
        if isinstance(data, JobWaitingData):
            return self._note_waiting(data)
        return False

    async def wait(self, pending: PendingRequest) -> Answer:
        """The answer to one request; while somebody waits, the request is asked again where that may help."""
        if pending.answer is None:
            self._awaited.add(pending)
            if pending.reply_generation == NO_REPLY:
                pending.message = with_reply_to(pending.message, self._address)
            if pending.reply_generation < self.generation:
                self._uncertain.add(pending)
        try:
            return await pending.wait()
        finally:
            if pending.answer is not None or not pending.waiters:
                self._awaited.discard(pending)
                self._uncertain.discard(pending)

    def mark_uncertain(self) -> None:
        """The reply queue was made anew: answers to what was asked before may have gone with the old one."""
        self.generation += 1
        self._uncertain |= self._awaited

    def due_for_resend(self, sent_before: float) -> list[PendingRequest]:
        """What is awaited and either in doubt, or was last asked before that moment."""
        overdue = {pending for pending in self._awaited if pending.sent_at <= sent_before}
        return [pending for pending in self._uncertain | overdue if pending.answer is None]

    @property
    def has_uncertain(self) -> bool:
        """Whether anything awaited is in doubt."""
        return bool(self._uncertain)

    def mark_resent(self, again: Iterable[PendingRequest], now: float) -> None:
        """These were asked again, and the broker has the question."""
        for pending in again:
            pending.reply_generation, pending.sent_at = self.generation, now
            self._uncertain.discard(pending)

    def close(self) -> None:
        """Nobody brings answers any more."""
        for pending in list(self._requested.values()):
            pending.abandon()

    def _settle(self, job_id: UUID, answer: Answer) -> bool:
        matched = [*self._deduplicated.pop(job_id, ())]
        if (pending := self._requested.get(job_id)) is not None:
            matched.append(pending)
        for pending in matched:
            pending.settle(answer)
        return bool(matched)

    def _note_waiting(self, data: JobWaitingData) -> bool:
        concerned = [*self._deduplicated.get(data.job_id, ())]
        if (pending := self._requested.get(data.job_id)) is not None:
            concerned.append(pending)
        for pending in concerned:
            pending.waiting = data
        return bool(concerned)

    def _redirect(self, data: JobDeduplicatedData) -> bool:
        pending = self._requested.get(data.requested_job_id)
        if pending is None or pending.answer is not None:
            return False
        pending.deduplicated, pending.job_id = True, data.job_id
        self._deduplicated.setdefault(data.job_id, WeakSet()).add(pending)
        return True


def _content(message: Message) -> JsonObject:
    """What was asked for, without when, under which trace and with what wish to hear of it."""
    content: JsonObject = json.loads(message.body)["data"]
    content.pop("reply_to", None)
    return content
