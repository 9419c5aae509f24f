"""Which declarations are known, alike in every store."""

from dataclasses import replace

from tests.store_rows import NOON, after

from warrener_store.schedules.rows import DeclarationRow
from warrener_store.store import Store

FIRST = DeclarationRow(
    name="hourly", definition_hash="aa", job_type="flights.load", declared_by="agent-1", declared_at=NOON
)
SECOND = replace(FIRST, definition_hash="bb", declared_at=after(1))
OTHER = replace(FIRST, name="nightly", job_type="mail.send")


async def test_the_first_word_of_a_declaration_counts(store: Store) -> None:
    await store.keep_declarations([FIRST, SECOND])
    await store.keep_declarations([replace(FIRST, declared_by="agent-2", declared_at=after(9)), FIRST])
    assert await store.declarations(["hourly"]) == [FIRST, SECOND]


async def test_they_are_found_by_schedule_and_by_job_type(store: Store) -> None:
    await store.keep_declarations([FIRST, OTHER, OTHER])
    assert await store.declarations([]) == []
    assert await store.declarations(["nightly"]) == [OTHER]
    assert await store.declarations([], ["flights.load"]) == [FIRST]
    assert await store.declarations(["nightly"], ["flights.load"]) == [FIRST, OTHER]
