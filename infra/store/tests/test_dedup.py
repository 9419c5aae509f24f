"""The answers to an insert, from what was inserted and what was found."""

from dataclasses import replace

from warrener_store.dedup import ExistingJobs, match_existing, resolve_in_order, unique_rows
from warrener_store.port import Inserted
from warrener_store.testing import queued_job


def test_rows_are_handed_over_in_the_order_of_their_ids() -> None:
    rows = [queued_job(idempotency_key=f"k{n}" if n else None) for n in range(5)]
    assert unique_rows([*rows, rows[0]]) == sorted(rows, key=lambda row: row.job_id)


def test_where_a_key_stands_twice_the_order_of_the_batch_is_preserved() -> None:
    rows = sorted(
        (queued_job(idempotency_key="k") for _ in range(4)), key=lambda row: row.job_id, reverse=True
    )
    assert unique_rows(rows) == rows


def test_what_nothing_stands_for_is_left_for_another_round() -> None:
    taken = queued_job(idempotency_key="k")
    blocked = queued_job(idempotency_key="k")
    free = replace(blocked, idempotency_key="free")
    assert match_existing({0: blocked, 1: free}, (), [taken]) == {0: Inserted(taken, new=False)}


def test_in_turn_each_row_sees_those_before_it() -> None:
    row, other = queued_job(idempotency_key="k"), queued_job(idempotency_key="k")
    assert resolve_in_order([row, other, row], ExistingJobs()) == [
        Inserted(row, new=True),
        Inserted(row, new=False),
        Inserted(row, new=False),
    ]
