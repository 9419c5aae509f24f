"""Which fault comes when: pure, and the same for the same seed and the same kinds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tools.chaos.faults.registry import Kind


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault of a plan. `seed` decides all that it chooses; `pause`: seconds before it begins;
    `overlapping`: the next one begins before the system has recovered from it."""

    number: int
    kind: Kind
    seed: int
    pause: float
    overlapping: bool


def make_plan(kinds: Sequence[Kind], seed: int, faults: int, *, overlap: float = 0.2) -> list[Planned]:
    """So many faults: each kind once, in random order, then kinds by weight."""
    dice = random.Random(seed)
    order = list(kinds)
    dice.shuffle(order)
    more = dice.choices(kinds, [kind.weight for kind in kinds], k=max(0, faults - len(order)))
    return [
        Planned(number, kind, dice.getrandbits(64), round(dice.uniform(0, 2), 2), dice.random() < overlap)
        for number, kind in enumerate([*order, *more][:faults], start=1)
    ]
