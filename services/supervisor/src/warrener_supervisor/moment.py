"""The circumstances of a judgement, handed in so that the judge needs no clock and no dice."""

from datetime import datetime
from typing import NamedTuple

from warrener_supervisor.rules import Rules


class Moment(NamedTuple):
    """When it is judged, by which rules, and the chance in [0, 1) that spreads a retry."""

    now: datetime
    rules: Rules
    chance: float = 0.5
