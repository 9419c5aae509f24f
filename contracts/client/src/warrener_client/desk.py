"""Where answers are matched with those who wait for them. Does no I/O."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID
from weakref import WeakSet, WeakValueDictionary

from warrener_client.asking import answerable
from warrener_client.errors import BadRequest
from warrener_client.pending import UNANSWERED, Answer, Pending
from warrener_contracts.events import (
    Event,
    JobDeduplicatedData,
    JobFinishedData,
    JobRejectedData,
    JobWaitingData,
    JsonObject,
)
from warrener_contracts.identity import job_id_of
from warrener_contracts.letters import Letter


class Desk:
    """Knows every request whose handle somebody still holds."""

    def __init__(self, address: str) -> None:
        self._address = address  # where answers come to
        self.generation = 0
        self._requested: WeakValueDictionary[UUID, Pending] = WeakValueDictionary()
        self._stand_ins: dict[UUID, WeakSet[Pending]] = {}
        self._awaited: set[Pending] = set()
        self._restless: set[Pending] = set()

    def expect(self, job_id: UUID, letter: Letter, now: float, *, answered: bool = True) -> Pending:
        """The pending entry of this request; a repeat under the same id shares that of the first.

        `answered`: the request says where its answer goes.
        """
        known = self._requested.get(job_id)
        if known is None:
            known = Pending(job_id, letter, self.generation if answered else UNANSWERED, now)
            self._requested[job_id] = known
        elif _content(known.letter) != _content(letter):
            raise BadRequest(
                f"expected the same content under the same id, got another request under {job_id}: "
                "leave the id out, or ask for the same thing"
            )
        return known

    def take(self, event: Event[Any]) -> bool:
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

    async def wait(self, pending: Pending) -> Answer:
        """The answer to one request; while somebody waits, the request is asked again where that may help."""
        if pending.answer is None:
            self._awaited.add(pending)
            if pending.told_under == UNANSWERED:
                pending.letter = answerable(pending.letter, self._address)
            if pending.told_under < self.generation:
                self._restless.add(pending)
        try:
            return await pending.wait()
        finally:
            if pending.answer is not None or not pending.waiters:
                self._awaited.discard(pending)
                self._restless.discard(pending)

    def doubt(self) -> None:
        """The reply queue was made anew: answers to what was asked before may have gone with the old one."""
        self.generation += 1
        self._restless |= self._awaited

    def to_ask_again(self, asked_before: float) -> list[Pending]:
        """What is awaited and either in doubt, or was last asked before that moment."""
        overdue = {pending for pending in self._awaited if pending.asked_at <= asked_before}
        return [pending for pending in self._restless | overdue if pending.answer is None]

    @property
    def restless(self) -> bool:
        """Whether anything awaited is in doubt."""
        return bool(self._restless)

    def asked(self, again: Iterable[Pending], now: float) -> None:
        """These were asked again, and the broker has the question."""
        for pending in again:
            pending.told_under, pending.asked_at = self.generation, now
            self._restless.discard(pending)

    def close(self) -> None:
        """Nobody brings answers any more."""
        for pending in list(self._requested.values()):
            pending.abandon()

    def _settle(self, job_id: UUID, answer: Answer) -> bool:
        asked = [*self._stand_ins.pop(job_id, ())]
        if (pending := self._requested.get(job_id)) is not None:
            asked.append(pending)
        for pending in asked:
            pending.settle(answer)
        return bool(asked)

    def _note_waiting(self, data: JobWaitingData) -> bool:
        concerned = [*self._stand_ins.get(data.job_id, ())]
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
        self._stand_ins.setdefault(data.job_id, WeakSet()).add(pending)
        return True


def _content(letter: Letter) -> JsonObject:
    """What was asked for, without when, under which trace and with what wish to hear of it."""
    content: JsonObject = json.loads(letter.body)["data"]
    content.pop("reply_to", None)
    return content
