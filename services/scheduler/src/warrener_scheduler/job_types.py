"""The job types that agents have announced, ready to check requests against."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from jsonschema_rs import Validator

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.arguments import ArgumentChecker, UnusableSchema
from warrener_store.agents.rows import JobTypeRow
from warrener_store.store import StateStore

_log = get_logger("job_types")

REFRESH_INTERVAL = 1.0  # seconds between two looks
_MAX_AGE = 1.5 * REFRESH_INTERVAL  # a request that meets an announcement may be judged by either side of it
_REFRESH_WINDOW = 600.0  # seconds; what nobody has asked for since is read when somebody does


@dataclass(frozen=True, slots=True)
class CachedJobType:
    """A job type as it was read from the store. Without a validator its arguments are not checked here."""

    row: JobTypeRow
    validator: Validator | None
    read_at: float


class JobTypeCache:
    """Job types by name, hardly more than a second old. What is not known is looked for each time."""

    def __init__(self, store: StateStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._checker = ArgumentChecker()
        self._known: dict[str, CachedJobType] = {}
        self._last_used_at: dict[str, float] = {}
        self._generation = 0  # how often
        self._unusable: set[tuple[str, str]] = set()

    async def get_many(self, names: AbstractSet[str]) -> Mapping[str, CachedJobType]:
        """Those of `names` that an agent has announced."""
        now = self._clock.monotonic()
        fresh = {name: known for name, known in self._known.items() if now - known.read_at < _MAX_AGE}
        if missing := names - fresh.keys():
            fresh |= await self._read(missing, now)
        self._known = fresh
        self._last_used_at |= dict.fromkeys(names & fresh.keys(), now)
        return fresh

    async def refresh(self) -> None:
        """Read those anew that were asked for lately: the first request after a pause waits for none."""
        now = self._clock.monotonic()
        self._last_used_at = {
            name: at for name, at in self._last_used_at.items() if now - at < _REFRESH_WINDOW
        }
        if not self._last_used_at:
            return
        generation = self._generation
        known = await self._read(self._last_used_at.keys(), now)
        if self._generation == generation:  # else it may be from before the announcement
            self._known = self._known | known

    def invalidate(self) -> None:
        """An agent has announced something: read them anew."""
        self._known = {}
        self._generation += 1

    async def _read(self, names: AbstractSet[str], now: float) -> dict[str, CachedJobType]:
        rows = await self._store.job_types(names)
        return {name: CachedJobType(row, self._validator(row), now) for name, row in rows.items()}

    def _validator(self, row: JobTypeRow) -> Validator | None:
        try:
            return self._checker.validator(row.arguments_schema)
        except UnusableSchema as error:
            self._log_unusable(row.name, str(error))
            return None

    def _log_unusable(self, job_type: str, why: str) -> None:
        """Once for each schema: the agent checks arguments too, so jobs go on."""
        if (job_type, why) in self._unusable:
            return
        self._unusable.add((job_type, why))
        _log.warning(
            "A job type's schema cannot be used: its arguments are not checked here.",
            action="accept.unusable_schema",
            job_type=job_type,
            reason=why,
        )
