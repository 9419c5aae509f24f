"""The kinds of faults, by name. A fault is a coroutine that begins it, ends it, and says what it did."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tools.chaos.clients import session
from tools.chaos.system import System
from tools.chaos.workload import Workload, build


@dataclass(frozen=True, slots=True)
class Scale:
    """How long faults last, in seconds, how big storms are, and how soon a lost piece must be back."""

    freezes: tuple[float, ...]
    outage: tuple[float, float]
    storm: int
    mended_within: float


LONG = Scale((5, 5, 6, 8, 10, 12, 15, 20, 30, 45, 90), (2.0, 12.0), 200, 60.0)
SHORT = Scale((5, 5.5, 6), (1.0, 3.0), 40, 30.0)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a fault acts on."""

    system: System
    workload: Workload
    dice: random.Random
    scale: Scale

    def outage(self) -> float:
        """How long something is away, in seconds."""
        return round(self.dice.uniform(*self.scale.outage), 1)

    def freeze(self) -> float:
        """How long something stands still, in seconds."""
        return self.dice.choice(self.scale.freezes)

    async def burst(self, job_type: str, seconds: tuple[float, float], count: int, *, fails: int = 0) -> None:
        """Request more jobs of one type, so that the fault meets some that run or wait."""
        given = {"fails": fails} if fails else {}
        dice = self.dice
        await self.workload.send(
            build(dice, job_type, given | {"seconds": round(dice.uniform(*seconds), 2)}, plain=False)
            for _ in range(count)
        )

    async def execute(self, statement: str) -> str:
        """Run one statement in the database as its owner; its status."""
        async with session(self.system.store_url) as connection:
            return await connection.execute(statement)


Fault = Callable[[Stage], Awaitable[str]]
"""Returns what it did, for the report: the replica, the duration."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. `weight`: how often it is chosen beside the others, after each has had its turn."""

    name: str
    bring_about: Fault
    weight: float = 1.0
    in_short_form: bool = True
    needs_faketime: bool = False
    needs_cluster: bool = False


KINDS: dict[str, Kind] = {}


def kind(
    name: str,
    *,
    weight: float = 1.0,
    in_short_form: bool = True,
    needs_faketime: bool = False,
    needs_cluster: bool = False,
) -> Callable[[Fault], Fault]:
    """Register a fault under a name."""

    def register(fault: Fault) -> Fault:
        assert name not in KINDS, name
        KINDS[name] = Kind(name, fault, weight, in_short_form, needs_faketime, needs_cluster)
        return fault

    return register
