"""The store that imports with the first use has the methods of the whole store, on the same connections."""

import asyncio
import subprocess
import sys

import pytest
from tests.store_rows import NOON, after, queued_job

from warrener_store import open_store
from warrener_store.opening import PARTS, PROPERTIES, open_store_on_demand, part_of
from warrener_store.postgres import PostgresStore
from warrener_store.sqlite import SqliteStore
from warrener_store.store import Store

WHOLE: dict[str, type[Store]] = {"sqlite": SqliteStore, "postgres": PostgresStore}
NAMES = [name for names in PARTS.values() for name in names.split()]


@pytest.mark.parametrize("name", sorted({*NAMES, *(name for name in dir(Store) if name[0] != "_")}))
@pytest.mark.parametrize("engine", WHOLE)
def test_a_part_has_the_method_of_the_whole_store(engine: str, name: str) -> None:
    part = part_of(engine, name)
    whole = WHOLE[engine]
    if name in PROPERTIES:
        assert issubclass(whole, part.__mro__[1] if part.__module__ == "abc" else part)
    else:
        assert getattr(part, name) is getattr(whole, name)


@pytest.mark.parametrize("engine", WHOLE)
def test_parts_share_the_connections_of_their_store(engine: str, request: pytest.FixtureRequest) -> None:
    asyncio.run(_use_parts(request.getfixturevalue(f"{engine}_store_url")))


async def _use_parts(url: str) -> None:
    store, whole, job = open_store_on_demand(url), open_store(url), queued_job()
    await store.start()
    await store.insert_jobs([job])  # of the whole store, as it writes
    assert await store.jobs_by_id([job.job_id]) == {job.job_id: job}
    assert await store.agents(None) == []
    assert await store.escalations.incidents() == []
    assert await store.claim_duty("prune", "me", NOON, after(60))
    assert await store.duties(NOON) == {"prune": "me"}
    await store.close()
    await whole.start()
    assert await whole.jobs_by_id([job.job_id]) == {job.job_id: job}
    await whole.close()


def test_an_unknown_name_is_no_method() -> None:
    store = open_store_on_demand("sqlite:///none.db")
    assert not hasattr(store, "jobs_by_name")
    assert not hasattr(store, "_jobs")


def test_a_read_imports_its_own_aggregate_alone() -> None:
    program = (
        "import sys; from warrener_store.opening import part_of; part_of('sqlite', 'list_jobs'); "
        "print(*(name for name in sys.modules if name.startswith('warrener_store.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    folders = {name.split(".")[1] for name in done.stdout.split() if name.count(".") > 1}
    assert folders == {"databases", "jobs"}
