"""What a guard is to run, as one line of its input."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class GuardSpec:
    """What to run: `commands` in order, the server last; as `user` and `group` (None: as we are)."""

    commands: list[list[str]]
    environment: dict[str, str]
    folder: str
    log: str
    user: str | None = None
    group: int | None = None

    def encode(self) -> str:
        """As one line."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, encoded: str) -> "GuardSpec":
        """What `encode` made."""
        return cls(**json.loads(encoded))
