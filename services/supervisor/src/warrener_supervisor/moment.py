"""The circumstances of a judgement, handed in so that the judge needs no clock and no dice."""

from datetime import datetime
from typing import NamedTuple

from warrener_store.holding import NOTHING_HELD, Holding
from warrener_supervisor.rules import Rules


class Moment(NamedTuple):
    """When it is judged, by which rules, the chance in [0, 1) that spreads a retry, and what breakers hold
    back."""

    now: datetime
    rules: Rules
    chance: float = 0.5
    holding: Holding = NOTHING_HELD
