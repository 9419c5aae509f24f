"""The import as a chord of Celery: workers load `app`; `python -m …peers.celery_canvas drive` requests."""

import os
import sys
from typing import Any

import celery.canvas  # type: ignore[import-untyped] # it brings no types
from tools.benchmarks.apps.celery_app import app as plain_app
from tools.benchmarks.peers.driving import PATIENCE, drive, note

canvas: Any = celery.canvas
app: Any = plain_app
if redis := os.environ.get("BENCH_REDIS_URL"):
    app.conf.result_backend = redis
_LOOK = 0.005  # seconds between looks for a result; its default of 0.5 would measure itself


def _load(number: int) -> int:
    """Nothing."""
    return 1


def _watched(number: int) -> int:
    """Say that it ran."""
    note("child")
    return 1


def _total(numbers: list[int]) -> int:
    """The task behind the join."""
    note("join")
    return sum(numbers)


def _following(number: int) -> int:
    return number + 1


load: Any = app.task(name="peers.load")(_load)
watched: Any = app.task(name="peers.watched")(_watched)
total: Any = app.task(name="peers.total")(_total)
following: Any = app.task(name="peers.following")(_following)


def main() -> None:
    """Request what the harness says."""

    def fan_out(task: Any, count: int) -> object:
        result = canvas.chord(task.s(number) for number in range(count))(total.s())
        return result.get(timeout=PATIENCE, interval=_LOOK)

    def calls(count: int) -> object:
        steps = [following.s(0), *(following.s() for _ in range(count - 1))]
        return canvas.chain(*steps).apply_async().get(timeout=PATIENCE, interval=_LOOK)

    drive(
        {
            "import": lambda count: fan_out(load, count),
            "watched": lambda count: fan_out(watched, count),
            "calls": calls,
        }
    )


if __name__ == "__main__" and sys.argv[1:] == ["drive"]:
    main()
