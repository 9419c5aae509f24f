"""What the console costs.

`python -m tools.benchmarks.console pages JOBS [sqlite|postgres]`, or `… open SECONDS`.
"""

import sys
from collections.abc import Callable

from tools.benchmarks.console.open_pages import measure_open_pages
from tools.benchmarks.console.page_times import measure_page_times

_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "pages": lambda words: measure_page_times(int(words[0]), words[1] if len(words) > 1 else "sqlite"),
    "open": lambda words: measure_open_pages(float(words[0]) if words else 20.0),
}


def main(words: list[str]) -> int:
    """Run one of the two and return 0 if all of its bounds hold."""
    if not words or words[0] not in _COMMANDS:
        print(f"expected pages JOBS [sqlite|postgres] or open [SECONDS], got {' '.join(words) or 'nothing'}")
        return 2
    return _COMMANDS[words[0]](words[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
