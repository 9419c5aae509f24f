"""A run's facts as a file, so that its report can be made again without another run."""

import gzip
from pathlib import Path

from pydantic import TypeAdapter
from tools.chaos.run import Outcome

_OUTCOME = TypeAdapter(Outcome)


def save(outcome: Outcome, path: Path) -> None:
    """Write everything that happened."""
    path.write_bytes(gzip.compress(_OUTCOME.dump_json(outcome)))


def load(path: Path) -> Outcome:
    """What `save` has written."""
    return _OUTCOME.validate_json(gzip.decompress(path.read_bytes()))
