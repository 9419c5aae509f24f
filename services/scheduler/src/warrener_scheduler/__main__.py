"""`warrener-scheduler`, or `python -m warrener_scheduler`."""

import sys

from warrener_runtime.lifecycle import heap
from warrener_runtime.lifecycle import main as serve
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import NAME, production


def main() -> int:
    """Serve until told to end; the exit code."""
    return serve(NAME, SchedulerSettings, production, looks=heap.SELDOM)


if __name__ == "__main__":
    sys.exit(main())
