"""Identifiers and chance that are the same in every run with the same seed."""

import random
from uuid import UUID

_FIRST_MILLISECOND = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where the virtual clock begins
_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


class SeededEntropy:
    """UUIDv7 that rise by one millisecond each, and numbers from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it is meant to be foreseen
        self._milliseconds = _FIRST_MILLISECOND

    def new_id(self) -> UUID:
        self._milliseconds += 1
        high = self._random.getrandbits(12) << 64
        low = self._random.getrandbits(62)
        return UUID(int=(self._milliseconds << 80) | _VERSION_7 | high | _VARIANT | low)

    def new_id_text(self) -> str:
        return str(self.new_id())

    def chance(self) -> float:
        return self._random.random()
