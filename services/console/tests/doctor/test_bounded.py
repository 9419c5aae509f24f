"""`warrener doctor` answers, whatever is frozen: it says what it could not look at."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from warrener.command.doctor import run_bounded
from warrener.doctor import CheckResult, CheckStatus, ok
from warrener.errors import CommandError


async def test_a_frozen_subject_does_not_hide_the_findings_of_others() -> None:
    async def frozen() -> AsyncIterator[CheckResult]:
        yield ok("broker", "it answers")
        await asyncio.Event().wait()

    async def broken() -> AsyncIterator[CheckResult]:
        if True:
            raise CommandError("expected a store, got none", do="start it")
        yield ok("store", "never")

    async def works() -> AsyncIterator[CheckResult]:
        yield ok("installation", "it is ours")

    found, all_ended = await run_bounded(
        {"broker": frozen(), "store": broken(), "installation": works()}, timeout=0.2
    )
    assert [(each.check, each.status) for each in found] == [
        ("broker", CheckStatus.OK),
        ("broker", CheckStatus.ERROR),
        ("store", CheckStatus.ERROR),
        ("installation", CheckStatus.OK),
    ]
    assert "after the check of broker: all that follows was not looked at" in found[1].message
    assert not all_ended


def test_the_command_ends_although_the_broker_only_accepts_connections(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}/"
        store = f"sqlite:///{here}/state.db"
        warrener = (sys.executable, "-m", "warrener")
        subprocess.run([*warrener, "migrate", "--store", store], check=True, capture_output=True)
        ended = subprocess.run(
            [*warrener, "doctor", "--broker", broker, "--store", store],
            check=False,
            capture_output=True,
            text=True,
        )
    assert ended.returncode == 1
    assert "no answer within 8 s" in ended.stdout
    assert "✓ store" in ended.stdout
    assert "Traceback" not in ended.stderr
