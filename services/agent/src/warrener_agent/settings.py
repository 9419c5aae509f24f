"""What an agent can be told."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from warrener_contracts.events.fields import QueueName
from warrener_contracts.topology import DELAY_LEVELS
from warrener_runtime.settings import ServiceSettings

Seconds = Annotated[float, Field(gt=0)]
_SHORTEST_MEMORY = 2 * DELAY_LEVELS[-1].delay


class AgentSettings(ServiceSettings):
    """Settings of the agent: `WARRENER_*`, or the table `agent` of the TOML file."""

    section: ClassVar[str | None] = "agent"

    ledger_url: str = "sqlite:///.warrener/ledger.db"
    """Where attempts are claimed: a file that the agents of this host share, or PostgreSQL."""
    agent_slots: Annotated[int, Field(ge=1, le=10_000)] = 10
    """How many attempts of each queue run at once."""
    agent_queues: tuple[QueueName, ...] = ()
    """The queues to serve, separated by commas; none means those that the job types declare."""
    agent_modules: tuple[str, ...] = ()
    """The modules with the handlers, separated by commas, where none are given on the command line."""
    agent_folder: Path | None = None
    """Where the agents of this host keep who they are, so that one that is started again takes up at once
    what it had; none means `agents`, beside the ledger if that is a file, else in `.warrener`."""
    agent_lease: Seconds = 6.0
    """How long a claim holds without being renewed; an agent that cannot renew stops its handlers before.
    Shorter than the supervisor's `lease`: an attempt whose message comes again is taken before it is given
    up."""
    agent_heartbeat: Seconds = 2.0
    """How often the agent says that it lives and what it runs."""
    agent_early_ack: Seconds = 900.0
    """After how long a running attempt's delivery is acknowledged: half the broker's consumer timeout."""
    agent_blocked_after: Annotated[float, Field(ge=0)] = 30.0
    """For how long the event loop may stand still, while a thread renews the leases, before the agent says
    why and ends with exit code 71, for a fresh process; never less than two leases. It ends sooner if the
    leases cannot be renewed. 0: no watch, and a handler that blocks may go on beyond its lease."""
    agent_remember: Seconds = 7 * 86400.0
    """How long the ledger remembers an attempt that has ended: longer than any message about it may be on its
    way, in delay queues and in the backlog of its queue."""
    agent_announce_after: Annotated[float, Field(ge=0)] = 0.5
    """An attempt that runs longer than this is announced as started."""
    agent_deaths: Annotated[int, Field(ge=1)] = 10
    """How often the processes of a job type may die within `agent_deaths_within`; then the type is held."""
    agent_deaths_within: Seconds = 60.0
    """The time in which the deaths are counted."""
    agent_hold: Seconds = 30.0
    """How long a job type is held: its attempts go back to the queue, uncharged, and other agents may try."""

    @field_validator("agent_remember")
    @classmethod
    def _longer_than_a_message_lives(cls, seconds: float) -> float:
        if seconds < _SHORTEST_MEMORY.total_seconds():
            hours = _SHORTEST_MEMORY // timedelta(hours=1)
            raise ValueError(
                f"at least {hours} h, twice the longest delay queue: a message that comes later "
                "would run its job a second time"
            )
        return seconds
