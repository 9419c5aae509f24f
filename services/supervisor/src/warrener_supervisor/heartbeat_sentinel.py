"""Prove that heartbeats reach this supervisor, by a message that it sends itself the same way.

Silence is judged only over a path that is proved: an exchange that was deleted, a binding that is gone or a
permission that was taken costs heartbeats, and no job.
"""

from collections.abc import Awaitable, Callable, Iterable

from warrener_contracts.messages import heartbeat_sentinel
from warrener_contracts.topology import EXCHANGES, HEARTBEATS, Queue, Topology, sentinel_key
from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import Delivery, PublishResult
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.health import NotReady
from warrener_runtime.lifecycle import Loop
from warrener_runtime.logs import get_logger

_log = get_logger("presence")

_INTERVAL = 1.0
_VALID = 4.0  # seconds for which a sentinel that came back proves the path, from its sending
_DECLARED_EVERY, _NAMED_AFTER = 3, 10
"""Sentinels in a row that did not come back: after each such number the path is declared again, and after the
other one readiness and an incident name it. Those that no broker answered are not counted."""


class HeartbeatSentinel(Loop):
    """Sends sentinels, and declares the exchange, the queue and its binding again while none comes back."""

    def __init__(  # noqa: PLR0917 - the four of every verb, and what it watches and reports to
        self,
        bus: Bus,
        clock: Clock,
        entropy: Entropy,
        supervisor_id: str,
        queue: Queue,
        raise_incident: Callable[[str], Awaitable[None]],
    ) -> None:
        """`raise_incident` receives the text."""
        super().__init__("heartbeats", self.send, every=_INTERVAL, clock=clock, check=self.check)
        self._bus, self._entropy = bus, entropy
        self._id, self._queue, self._raise_incident = supervisor_id, queue, raise_incident
        self._key = sentinel_key(supervisor_id)
        self._sent_at: dict[str, float] = {}
        self._proved_at: float | None = None
        self._missing = 0  # sentinels in a row
        self._is_raised = False

    @property
    def proves(self) -> bool:
        """True if a sentinel of the last seconds came back, and with it every heartbeat before it."""
        return self._proved_at is not None and self._clock.monotonic() - self._proved_at < _VALID

    def note(self, deliveries: Iterable[Delivery]) -> None:
        """Note the sentinels among these; call it once the heartbeats among them are stored."""
        for delivery in deliveries:
            if delivery.routing_key == self._key and delivery.message_id is not None:
                sent_at = self._sent_at.pop(delivery.message_id, None)
                if sent_at is not None:
                    self._proved_at, self._missing = max(self._proved_at or sent_at, sent_at), 0

    async def send(self) -> None:
        """Send one sentinel; declare the path again if it is missing or earlier ones did not come back."""
        now = self._clock.monotonic()
        self._sent_at = {key: at for key, at in self._sent_at.items() if now - at < _VALID}
        message = heartbeat_sentinel(self._id, self._entropy.new_id_text())
        self._sent_at[message.message_id] = now
        [sent] = await self._bus.publish([message], timeout=_VALID)
        self._missing += sent is not PublishResult.UNKNOWN and message.message_id in self._sent_at
        if sent is PublishResult.UNROUTABLE or (self._missing and self._missing % _DECLARED_EVERY == 0):
            _log.warning(
                "No heartbeat can arrive: the exchange, the queue or its binding is declared again.",
                action="presence.declared_again",
                queue=self._queue.name,
                result=sent.value,
            )
            await self._bus.declare(Topology(EXCHANGES, (self._queue,)))
        if self._missing <= _NAMED_AFTER:
            self._is_raised = False
        elif not self._is_raised:  # one incident for each time without proof
            await self._raise_incident(self._explain())
            self._is_raised = True

    async def check(self) -> None:
        """Raise NotReady if heartbeats have not reached this supervisor for some time."""
        if self._missing > _NAMED_AFTER:
            raise NotReady(self._explain())

    def _explain(self) -> str:
        return (
            f"expected sentinels by {HEARTBEATS} to come back to {self._queue.name}, got none of the last"
            f" {self._missing}, so no agent is declared lost; run `warrener topology --check`, and grant the"
            " supervisor the permission to write there"
        )
