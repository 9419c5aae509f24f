"""The jobs, as DBOS's executors load them; run as a module it is one."""

import threading

from dbos import DBOS, DBOSConfig
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp

QUEUE = "bench"
POLLING = 0.05  # seconds; its default of 1 would measure itself
VERSION = "bench"


@DBOS.workflow(name="noop")
def noop(payload: str) -> int:
    """Nothing."""
    return len(payload)


@DBOS.workflow(name="stamped")
def stamped() -> None:
    """Say when it began."""
    stamp()


if __name__ == "__main__":
    DBOS(
        config=DBOSConfig(
            name="bench",
            system_database_url=here().database_url,
            application_version=VERSION,
            log_level="WARNING",
        )
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLLING)
    threading.Event().wait()
