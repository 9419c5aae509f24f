"""The settings of an agent."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ByteSize, Field, ValidationInfo, field_validator

from warrener_contracts.fields import QueueName
from warrener_contracts.topology import DELAY_LEVELS
from warrener_runtime.settings import DurationSeconds, ServiceSettings

Seconds = Annotated[DurationSeconds, Field(gt=0)]
_MIN_RETENTION = 2 * DELAY_LEVELS[-1].delay


class AgentSettings(ServiceSettings):
    """Settings of the agent: `WARRENER_*`, or the table `agent` of the TOML file."""

    section: ClassVar[str | None] = "agent"

    ledger_url: str = "sqlite:///.warrener/ledger.db"
    """URL of the ledger, where attempts are claimed: a file of this host, or PostgreSQL."""
    encryption_keys_file: Path | None = None
    """File of the keys of encrypted payloads; none: an attempt with encrypted arguments fails."""
    agent_slots: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Maximum of attempts of each queue that run at once."""
    agent_queues: tuple[QueueName, ...] = ()
    """Queues to serve, separated by commas (default: those that the job types declare)."""
    agent_modules: tuple[str, ...] = ()
    """Modules with the handlers, separated by commas, if the command line names none."""
    version: Annotated[str, Field(max_length=100)] = ""
    """Version of the handlers' code, for the marks of deploys (default: that of the package that holds the
    module of the handlers, if it is an installed one)."""
    agent_folder: Path | None = None
    """Folder of the agents' identities, by which a restarted agent takes up its attempts at once (default:
    `agents`, beside the ledger if that is a file, else in `.warrener`)."""
    agent_environment: tuple[str, ...] = ()
    """Variables that child processes and programs get beside PATH, HOME, LANG and their like, separated by
    commas; `*` stands for any characters: `DJANGO_SETTINGS_MODULE,SHOP_*`."""
    supervisor_agent_timeout: Seconds | None = None
    """The setting of the supervisor, where it is set for the agent too: compared, not used."""
    agent_claim_ttl: Seconds = 6.0
    """Time for which a claim holds without being renewed; an agent that cannot renew stops its handlers
    before. Must be shorter than `supervisor_agent_timeout`: an attempt whose message comes again is taken
    over before it is declared lost."""
    agent_heartbeat: Seconds = 2.0
    """Time between two heartbeats."""
    agent_early_ack: Seconds = 900.0
    """Time after which a running attempt's delivery is acknowledged: half of the consumer timeout."""
    agent_block_timeout: Annotated[DurationSeconds, Field(ge=0)] = 30.0
    """Time for which the event loop may be blocked, while a thread renews the leases, before the agent
    logs why and ends with exit code 71; at least two leases. It ends sooner if the leases cannot be renewed.
    0: no watchdog, and a handler that blocks may go on beyond its lease."""
    agent_claim_retention: Seconds = 7 * 86400.0
    """Time for which the ledger keeps an attempt that has ended: longer than any message about it may be
    on its way, in delay queues and in the backlog of its queue."""
    agent_announce_delay: Annotated[DurationSeconds, Field(ge=0)] = 0.5
    """Time after which a running attempt is announced as started."""
    agent_crash_loop_limit: Annotated[int, Field(ge=1)] = 10
    """Crashes of a job type's processes within `agent_crash_loop_window` after which the type is
    suspended."""
    agent_crash_loop_window: Seconds = 60.0
    """Time in which the crashes are counted."""
    agent_crash_loop_pause: Seconds = 30.0
    """Time for which a job type is suspended: its attempts go back to the queue, uncharged."""

    agent_handler_log_level: Literal["debug", "info", "warning", "error"] | None = None
    """Level from which the lines of handlers are written and stored (default: `log_level`)."""
    agent_log_size_limit: Annotated[ByteSize, Field(ge=0, le=1024 * 1024)] = ByteSize(64 * 1024)
    """Bytes of the last log lines of an attempt that wait to be published; 0: no lines are stored."""
    agent_log_lines_limit: Annotated[int, Field(ge=1, le=10_000)] = 500
    """The same in lines."""
    agent_log_line_size_limit: Annotated[ByteSize, Field(ge=100, le=64 * 1024)] = ByteSize(8 * 1024)
    """Characters of a log line; a longer one is cut and says so."""
    agent_log_rate_limit: Annotated[ByteSize, Field(ge=1024)] = ByteSize(256 * 1024)
    """Bytes of log lines that the agent publishes per second; lines beyond are left out, the oldest first."""
    agent_log_interval: Annotated[DurationSeconds, Field(ge=0.1, le=60)] = 1.0
    """Time between two publishes of log lines: an agent that is killed loses the lines of that time."""

    @property
    def scope_log_level(self) -> str:
        return self.agent_handler_log_level or self.log_level

    @field_validator("agent_claim_ttl")
    @classmethod
    def _claims_end_before_agents_are_lost(cls, ttl: float, info: ValidationInfo) -> float:
        timeout: float | None = info.data.get("supervisor_agent_timeout")
        if timeout is not None and ttl >= timeout:
            raise ValueError(
                f"less than supervisor_agent_timeout ({timeout:g} s), so that a claim ends before"
            )
        return ttl

    @field_validator("agent_claim_retention")
    @classmethod
    def _longer_than_a_message_lives(cls, seconds: float) -> float:
        if seconds < _MIN_RETENTION.total_seconds():
            hours = _MIN_RETENTION // timedelta(hours=1)
            raise ValueError(
                f"at least {hours} h, twice the longest delay queue: a message that comes later "
                "would run its job a second time"
            )
        return seconds
