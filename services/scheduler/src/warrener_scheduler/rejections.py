"""The rejection of a request: its reason, for the requester and for all others."""

from dataclasses import dataclass

from warrener_contracts import events


@dataclass(frozen=True, slots=True)
class Rejected:
    """No job, and the reason. `detail` is for the reply: it quotes the values of the request. `public` is for
    all others: events, logs and parked messages. `hides_arguments`: the request is parked without them.
    `parks`: False for what its job type foresees, and nobody has to look at."""

    reason: events.Reason
    detail: str
    _public: str = ""
    hides_arguments: bool = False
    parks: bool = True

    @property
    def public(self) -> str:
        return self._public or self.detail
