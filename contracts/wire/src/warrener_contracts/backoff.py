"""How long to wait before the next attempt: a fixed time, a growing one, or a list. Pure data and arithmetic.

A policy says it in the fields that version 1.0 of the wire had (`first`, `factor`, `limit`, `jitter`), and
since 1.1 in `step` or `delays` too. A reader that does not know these two passes over them, so whoever writes
them fills in the others with what comes nearest: the constructors below do.
"""

from datetime import timedelta
from typing import Self

from pydantic import BaseModel, Field, model_validator

from warrener_contracts.durations import MAX_DURATION, Duration, parse_duration
from warrener_contracts.omit_defaults import is_unset

_MAX_DELAYS = 100
_MAX_EXPONENT = 64  # failures: past it every curve has met its limit; much beyond it floats overflow

DurationLike = timedelta | float | str
"""A duration as a person writes it: 90, "90s", "2m", "PT2M", or a timedelta."""


class Backoff(BaseModel, frozen=True):
    """The delay before the next attempt, spread by `jitter`.

    Exponential: after the n-th failure `first * factor**(n-1)`, at most `limit`. With `step` it is linear
    instead: `first + step * (n-1)`, at most `limit`. With `delays` it is the n-th of them, and the last one
    from then on.
    """

    first: Duration = timedelta(seconds=1)
    factor: float = Field(default=2.0, ge=1.0, le=100.0)
    limit: Duration = timedelta(minutes=5)
    jitter: float = Field(
        default=0.1, ge=0.0, le=1.0, description="A share of the delay, added or taken away at random."
    )
    step: Duration | None = Field(
        default=None,
        exclude_if=is_unset,
        description="Linear: by so much each delay is longer than the one before; factor counts for nothing.",
    )
    delays: tuple[Duration, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=_MAX_DELAYS,
        exclude_if=is_unset,
        description="An explicit list; the last one repeats; first, factor and limit count for nothing.",
    )

    @model_validator(mode="after")
    def _check_one_curve(self) -> Self:
        if self.step is not None and self.delays is not None:
            raise ValueError("expected step (linear) or delays (a list), got both: leave one of them out")
        return self

    @classmethod
    def fixed(cls, delay: DurationLike, *, jitter: float = 0.1) -> Self:
        """Always the same delay."""
        return cls(first=parse_duration(delay), factor=1.0, limit=parse_duration(delay), jitter=jitter)

    @classmethod
    def linear(
        cls,
        first: DurationLike,
        *,
        step: DurationLike | None = None,
        limit: DurationLike = "5m",
        jitter: float = 0.1,
    ) -> Self:
        """`first`, and by `step` longer each time (by `first` if not said), at most `limit`."""
        by = parse_duration(first if step is None else step)
        return cls(
            first=parse_duration(first), factor=1.0, step=by, limit=parse_duration(limit), jitter=jitter
        )

    @classmethod
    def exponential(
        cls,
        first: DurationLike = "1s",
        *,
        factor: float = 2.0,
        limit: DurationLike = "5m",
        jitter: float = 0.1,
    ) -> Self:
        """`first`, and `factor` times as long each time, at most `limit`."""
        return cls(first=parse_duration(first), factor=factor, limit=parse_duration(limit), jitter=jitter)

    @classmethod
    def listed(cls, *delays: DurationLike, jitter: float = 0.1) -> Self:
        """These delays, one after the other; the last one from then on."""
        spans = tuple(parse_duration(delay) for delay in delays)
        ends = {"first": spans[0], "limit": max(spans)} if spans else {}
        return cls.model_validate({"delays": spans, "jitter": jitter, **ends})

    def base_delay(self, failures: int) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …) before it is spread; at most LONGEST."""
        before = max(failures - 1, 0)
        if self.delays is not None:
            return min(self.delays[min(before, len(self.delays) - 1)], MAX_DURATION)
        seconds = self.first.total_seconds()
        if self.step is not None:
            seconds += self.step.total_seconds() * before
        else:
            seconds *= self.factor ** min(before, _MAX_EXPONENT)
        return timedelta(seconds=min(seconds, self.limit.total_seconds()))

    def delay(self, failures: int, chance: float) -> timedelta:
        """The delay after the `failures`-th failure (1, 2, …); `chance` is a random number in [0, 1).

        Never negative, never longer than the longest duration there is.
        """
        spread = 1 + self.jitter * (2 * chance - 1)
        return min(timedelta(seconds=self.base_delay(failures).total_seconds() * spread), MAX_DURATION)
