"""`warrener-scheduler`, or `python -m warrener_scheduler`."""

import sys

from warrener_runtime.lifecycle import look_for_garbage_seldom
from warrener_runtime.lifecycle import main as serve
from warrener_scheduler.settings import SchedulerSettings
from warrener_scheduler.wiring import NAME, production


def main() -> int:
    """Serve until told to end; the exit code."""
    look_for_garbage_seldom()
    return serve(NAME, SchedulerSettings, production)


if __name__ == "__main__":
    sys.exit(main())
