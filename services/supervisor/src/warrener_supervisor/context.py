"""The circumstances of a judgement, handed in so that the judge needs no clock and no dice."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from warrener_store.breaker_gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_supervisor.timings import Timings

_NONE: Mapping[UUID, int] = MappingProxyType({})
_NOBODY: Mapping[str, datetime] = MappingProxyType({})


class JudgeContext(NamedTuple):
    """When it is judged, by which rules, the chance in [0, 1) that spreads a retry, what breakers hold back,
    how often jobs have snoozed where the row alone does not say (`snoozing`), and when agents were last seen
    that are said to be lost."""

    now: datetime
    timings: Timings
    chance: float = 0.5
    holding: OpenBreakers = NO_OPEN_BREAKERS
    snoozes: Mapping[UUID, int] = _NONE
    seen: Mapping[str, datetime] = _NOBODY
