"""One request, and what is known of its end."""

import asyncio
from uuid import UUID

from warrener_client.errors import ClientClosed
from warrener_contracts.events import JobFinishedData, JobRejectedData, JobWaitingData
from warrener_contracts.messages import Message

Answer = JobFinishedData | JobRejectedData
NO_REPLY = -1


class PendingRequest:
    """Kept alive by the handles of the callers alone: what nobody can ask about any more is forgotten.

    `reply_generation` is the generation of the reply queue when the request was last sent: a reply to an
    older one may have been lost with the queue. UNANSWERED: it was asked for without a wish to hear of it.
    """

    __slots__ = (
        "__weakref__",
        "_arrived",
        "_closed",
        "answer",
        "deduplicated",
        "job_id",
        "message",
        "reply_generation",
        "sent_at",
        "waiters",
        "waiting",
    )

    def __init__(self, job_id: UUID, message: Message, reply_generation: int, sent_at: float) -> None:
        self.job_id = job_id
        self.message = message
        self.reply_generation = reply_generation
        self.sent_at = sent_at
        self.deduplicated = False
        self.answer: Answer | None = None
        self.waiters = 0
        self.waiting: JobWaitingData | None = None
        self._arrived: asyncio.Event | None = None
        self._closed = False

    async def wait(self) -> Answer:
        """The answer, when it comes. Raises ClientClosed if the client closes before that."""
        if self.answer is None and not self._closed:
            self._arrived = self._arrived or asyncio.Event()
            self.waiters += 1
            try:
                await self._arrived.wait()
            finally:
                self.waiters -= 1
        if self.answer is None:
            raise ClientClosed(
                f"expected an open client to wait for job {self.job_id}, got a closed one: "
                "the job goes on; ask again with the same id"
            )
        return self.answer

    def settle(self, answer: Answer) -> None:
        """The first answer counts; repeats say the same."""
        if self.answer is None:
            self.answer = answer
            self._wake()

    def abandon(self) -> None:
        """The client closes: nobody will bring the answer any more."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()
