"""The circumstances of a judgement, handed in so that the judge needs no clock and no dice."""

from dataclasses import dataclass
from datetime import datetime

from warrener_supervisor.rules import Rules


@dataclass(frozen=True, slots=True)
class Moment:
    """When it is judged, by which rules, and the chance in [0, 1) that spreads a retry."""

    now: datetime
    rules: Rules
    chance: float = 0.5
