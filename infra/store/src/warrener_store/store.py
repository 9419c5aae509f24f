"""The store: everything that one database holds. Each service uses the parts that it needs."""

from warrener_store.agents.store import AgentStore
from warrener_store.audit.store import AuditLog
from warrener_store.breakers.store import BreakerStore
from warrener_store.dead_letters.store import DeadLetterStore
from warrener_store.gates.store import GateStore
from warrener_store.incidents.store import Escalations
from warrener_store.installation import Duties, Installations
from warrener_store.jobs.store import JobStore
from warrener_store.logs.store import AttemptLogs
from warrener_store.parked.store import ParkedMessages
from warrener_store.retention.store import Retention
from warrener_store.schedules.store import ScheduleLists, Schedules, TickRetention, Triggers, Watches
from warrener_store.sessions.store import SessionStore
from warrener_store.statistics.store import Statistics
from warrener_store.workflows.store import WorkflowStore


class StateStore(
    JobStore,
    AttemptLogs,
    AgentStore,
    BreakerStore,
    ParkedMessages,
    AuditLog,
    SessionStore,
    Duties,
    Escalations,
    DeadLetterStore,
    WorkflowStore,
    GateStore,
):
    """Jobs and all that services store about them.

    Errors of the database are StoreUnavailable (try again) or StoreRefused (a constraint: a bug).
    """

    @property
    def escalations(self) -> Escalations:
        """Incidents."""
        return self

    @property
    def dead_letter_store(self) -> DeadLetterStore:
        """Dead letters, and the redrives over them."""
        return self


class Store(
    StateStore,
    Schedules,
    ScheduleLists,
    Watches,
    TickRetention,
    Triggers,
    Installations,
    Retention,
    Statistics,
):
    """The state store with schedules, what is expected of them and who has declared them."""

    @property
    def retention(self) -> Retention:
        """Old rows, and their deletion."""
        return self

    @property
    def statistics(self) -> Statistics:
        """Jobs that are over, counted as they end; deploys."""
        return self

    @property
    def triggers(self) -> Triggers:
        """The events that schedules wait for."""
        return self
