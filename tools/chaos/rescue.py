"""Judge a run whose harness was killed: from its journal, its effect ledger, and the folder of PostgreSQL."""

import asyncio
from pathlib import Path

from pydantic import TypeAdapter
from tests.servers.choosing import chosen_servers
from tools.chaos.checker import check
from tools.chaos.evidence import Known, collect, counts
from tools.chaos.journal import read_journal
from tools.chaos.run import Outcome

_OUTCOME = TypeAdapter(Outcome)


async def rescue(folder: Path) -> Outcome:
    """The outcome as far as it had come; what was not over then is not judged."""
    journal = read_journal(folder)
    (began,) = journal["began"]
    outcome = _OUTCOME.validate_python(began["outcome"])
    outcome.faults = journal["FaultFact"]
    outcome.notes = [(at, what, detail) for at, what, detail in journal["note"]]
    outcome.interrupted = True
    postgres = chosen_servers().postgres(folder / "postgres")
    await asyncio.to_thread(postgres.start)
    try:
        known = Known(
            began["offset"],
            folder / "effects",
            journal["Request"],
            journal["Freeze"],
            journal["Schedule"],
            dict(journal["answer"]),
            journal["Unmended"],
            journal["Destroyed"],
            settled=False,
        )
        url = postgres.url_of("chaos")
        outcome.history = await collect(url, known)
        outcome.counts = await counts(url)
    finally:
        await asyncio.to_thread(postgres.stop)
    stamps = [ending.at for ending in outcome.history.endings] + [fault.ended for fault in outcome.faults]
    outcome.ended = max([*stamps, outcome.began])
    outcome.violations = check(outcome.history)
    return outcome
