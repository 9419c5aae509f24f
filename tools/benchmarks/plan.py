"""How much is measured."""

from dataclasses import dataclass

_MIDDLING = ("taskiq", "dramatiq")
_SLOW = ("celery", "procrastinate", "dbos")


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Every system is measured for some seconds: as long a time, not as many jobs."""

    jobs: int = 30_000
    middling_jobs: int = 10_000  # of systems that do a thousand or two a second
    slow_jobs: int = 3_000  # of systems that do some hundreds
    rounds: int = 1  # of the table, whose figures are for orientation: ratios come from the pairs
    pairs: int = 9  # of turns, ours and one other; so many leave out the two extremes of the interval
    turn_seconds: float = 3.0  # of load in a turn
    pair_samples: int = 30  # jobs one after another in a turn, where start latencies are compared
    samples: int = 200
    loaded_samples: int = 200
    workers: int = 2  # processes of a peer that do jobs
    agents: int = 1  # of ours, beside its scheduler and its supervisor
    payload: int = 100  # bytes
    lag_seconds: float = 60.0  # of a schedule of one tick a second

    def workers_of(self, system: str) -> int:
        """How many processes of a system do jobs."""
        return self.agents if system.startswith("warrener") else self.workers

    def jobs_of(self, system: str) -> int:
        """How many jobs of a system are measured."""
        if system in _SLOW:
            return min(self.jobs, self.slow_jobs)
        return min(self.jobs, self.middling_jobs) if system in _MIDDLING else self.jobs


QUICK = Plan(
    jobs=1_000,
    slow_jobs=500,
    rounds=1,
    pairs=2,
    turn_seconds=0.5,
    pair_samples=5,
    samples=20,
    loaded_samples=20,
    lag_seconds=15.0,
)
