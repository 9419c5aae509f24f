"""Which rows of an insert are new, and what stands for the others. Pure; told what the database knows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from warrener_store.port import Inserted
from warrener_store.rows import JobRow


@dataclass(slots=True)
class ExistingJobs:
    """The jobs that are there, by what makes a request the same."""

    by_id: dict[UUID, JobRow] = field(default_factory=dict[UUID, JobRow])
    by_key: dict[str, JobRow] = field(default_factory=dict[str, JobRow])

    @classmethod
    def of(cls, rows: Iterable[JobRow]) -> "ExistingJobs":
        """These jobs."""
        known = cls()
        for row in rows:
            known.add(row)
        return known

    def add(self, row: JobRow) -> None:
        """One more."""
        self.by_id[row.job_id] = row
        if row.idempotency_key is not None:
            self.by_key[row.idempotency_key] = row

    def find_match(self, row: JobRow) -> JobRow | None:
        """The job that this row asks for again: by its id, else by its key."""
        held = self.by_id.get(row.job_id)
        if held is None and row.idempotency_key is not None:
            held = self.by_key.get(row.idempotency_key)
        return held


def resolve_in_order(rows: Sequence[JobRow], known: ExistingJobs) -> list[Inserted]:
    """Insert in order, each row after those before it. Those that are `new` are to be written."""
    answers: list[Inserted] = []
    for row in rows:
        held = known.find_match(row)
        if held is None:
            known.add(row)
        answers.append(Inserted(held or row, new=held is None))
    return answers


def unique_rows(rows: Sequence[JobRow]) -> list[JobRow]:
    """One row of each id, the first; in the order of ids where no key stands twice.

    In one order two batches that overlap cannot wait for each other in a circle. Where a key stands twice,
    the order of the batch decides which row is inserted, and the database breaks the rare circle.
    """
    # By the number in the id: what a UUID compares and hashes by, without its methods in Python.
    by_id: dict[int, JobRow] = {}
    for row in rows:
        by_id.setdefault(row.job_id.int, row)
    keys = [row.idempotency_key for row in by_id.values() if row.idempotency_key is not None]
    if len(set(keys)) < len(keys):
        return list(by_id.values())
    return [by_id[number] for number in sorted(by_id)]


def match_existing(
    rows: Mapping[int, JobRow], new: Iterable[UUID], held: Iterable[JobRow]
) -> dict[int, Inserted]:
    """The answers, by place in the batch, that follow from what was inserted and what was found there.

    A row is missing where nothing stands for it: it was kept out by another row of its batch that was kept
    out too.
    """
    first_of = set(new)
    known = ExistingJobs.of(held)
    answers: dict[int, Inserted] = {}
    for place, row in rows.items():
        if row.job_id in first_of:
            first_of.remove(row.job_id)
            known.add(row)
            answers[place] = Inserted(row, new=True)
    for place, row in rows.items():
        if place not in answers and (stands := known.find_match(row)) is not None:
            answers[place] = Inserted(stands, new=False)
    return answers
