"""A requester that dies: `python -m tests.acceptance.outbox_writer URL POINT`, for test_outbox.py.

It dies by SIGKILL at POINT of its transaction: `begun`, `written`, `committed`; any other word: not at all.
"""

import os
import signal
import sys

import psycopg

from warrener_client import Outbox


def main(url: str, point: str) -> None:
    """Write one request, whose text is the point."""

    def die_at(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
        die_at("begun")
        Outbox().enqueue(connection, "mail.send", {"text": point}, ordering_key="mails")
        die_at("written")
        connection.commit()
        die_at("committed")


if __name__ == "__main__":
    main(*sys.argv[1:])
