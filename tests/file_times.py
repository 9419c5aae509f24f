"""How long each test file takes, and the order in which test processes that share the files start them.

The longest start first: one that is begun last runs alone. Tests of real processes mostly wait and all others
compute, so the order mixes the two: neither does the processor idle, nor is it wanted by all at once.
`make test-times` measures; `WARRENER_TEST_TIMES` names the file that a test run then writes.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("longest_files.txt")
SETTING = "WARRENER_TEST_TIMES"
_LISTED = 4.0  # seconds; shorter ones are not listed
_UNLISTED = 1.0  # seconds that one that is not listed takes
_WAITING = "tests/acceptance/"


def read_times(file: Path = FILE) -> dict[str, float]:
    """Return the seconds of each listed file."""
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
    return {path: float(seconds) for seconds, path in lines}


def write_times(seconds: Mapping[str, float], file: Path = FILE) -> None:
    """List the files that take long, the longest first."""
    longest = sorted(((took, path) for path, took in seconds.items() if took >= _LISTED), reverse=True)
    file.write_text("".join(f"{took:.0f} {path}\n" for took, path in longest), encoding="utf-8")


def start_order(paths: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Return the files in the order of their start: the longest first among those that wait and among those
    that compute, and both so mixed that they end together."""
    files = list(dict.fromkeys(paths))
    waiting = [path for path in files if path.startswith(_WAITING)]
    computing = [path for path in files if not path.startswith(_WAITING)]
    placed = [*_places(waiting, seconds), *_places(computing, seconds)]
    return [path for _, path in sorted(placed, key=lambda one: one[0])]


def _places(paths: Iterable[str], seconds: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Each file with the share of the time that has passed when it starts."""
    longest_first = sorted(paths, key=lambda path: -seconds.get(path, _UNLISTED))
    total = sum(seconds.get(path, _UNLISTED) for path in longest_first)
    passed = 0.0
    for path in longest_first:
        yield passed / total, path
        passed += seconds.get(path, _UNLISTED)
