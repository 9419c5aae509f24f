"""Where one round of one system happens: its broker, its database, and where its jobs say that they began."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "WARRENER_BENCH_PLACE"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Place:
    """A virtual host and a database of its own, on servers that all systems share."""

    broker_url: str
    database_url: str
    stamp_port: int
    folder: str

    def environment(self, **more: str) -> dict[str, str]:
        """For every process of this round; nothing of our caller's settings reaches them."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
        return inherited | {_NAME: json.dumps(asdict(self)), "PYTHONPATH": str(ROOT), **more}


def here() -> Place:
    """The place that this process was started for."""
    return Place(**json.loads(os.environ[_NAME]))
