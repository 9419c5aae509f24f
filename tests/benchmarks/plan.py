"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    jobs: int = 10_000
    slow_jobs: int = 3_000  # of systems that do some hundreds a second: as long a time, not as many jobs
    rounds: int = 5
    samples: int = 200
    loaded_samples: int = 200
    workers: int = 2
    payload: int = 100  # bytes

    def jobs_of(self, system: str) -> int:
        """How many jobs of a system are measured."""
        return (
            self.jobs
            if system.startswith(("warrener", "taskiq", "dramatiq"))
            else min(self.jobs, self.slow_jobs)
        )


QUICK = Plan(jobs=1_000, slow_jobs=500, rounds=1, samples=20, loaded_samples=20)
