"""The saves of one job in one batch: a chain of versions that is applied as a whole or not at all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from uuid import UUID

from warrener_store.last_attempt import told_by
from warrener_store.port import Save, StoreRefused
from warrener_store.rows import AttemptRow, DeadLetter, JobRow

_NUMBER = attrgetter("int")  # what a UUID is ordered by, without its comparison in Python


@dataclass(slots=True)
class Chain:
    """From the version `held` to that of `row`, with everything that is written beside it."""

    held: int
    row: JobRow
    attempts: list[AttemptRow] = field(default_factory=list[AttemptRow])
    dead_letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    told: AttemptRow | None = None  # the last attempt, where it is kept in the job's own row


def chains(saves: Iterable[Save]) -> list[Chain]:
    """One chain for each job, in the order of job ids: whoever locks in this order cannot meet a deadlock.

    Raises StoreRefused where two saves of a job are not successive versions, or one leaves a terminal state.
    """
    by_job: dict[UUID, Chain] = {}
    for save in saves:
        chain = by_job.get(save.row.job_id)
        if chain is None:
            by_job[save.row.job_id] = chain = Chain(save.row.version - 1, save.row)
        else:
            _append(chain, save.row)
        _attach(chain, save)
    return [_whole(by_job[job_id]) for job_id in sorted(by_job, key=_NUMBER)]


def attempts_of(batch: Sequence[Chain]) -> list[AttemptRow]:
    """The attempts of all chains that become rows of their own."""
    return [
        attempt
        for chain in batch
        for attempt in (chain.attempts if chain.told is None else chain.attempts[:-1])
    ]


def dead_letters_of(batch: Sequence[Chain]) -> list[DeadLetter]:
    """The dead letters of all chains."""
    return [letter for chain in batch for letter in chain.dead_letters]


def _whole(chain: Chain) -> Chain:
    """The chain, to which nothing is added any more."""
    if chain.attempts and told_by(chain.row, chain.attempts[-1]):
        chain.told = chain.attempts[-1]
    return chain


def _append(chain: Chain, row: JobRow) -> None:
    if row.version != chain.row.version + 1:
        raise StoreRefused(
            f"expected successive versions of job {row.job_id} in one batch, got {chain.row.version} and "
            f"then {row.version}; judge the second on what the first one made"
        )
    if chain.row.state.terminal:
        raise StoreRefused(
            f"expected nothing after {chain.row.state} of job {row.job_id}, got {row.state}; "
            "a terminal state is never left"
        )
    chain.row = row


def _attach(chain: Chain, save: Save) -> None:
    for beside in (save.attempt, save.dead_letter):
        if beside is not None and beside.job_id != save.row.job_id:
            raise StoreRefused(
                f"expected an attempt or dead letter of job {save.row.job_id}, "
                f"got one of {beside.job_id}; save it with its own job"
            )
    if save.attempt is not None:
        chain.attempts.append(save.attempt)
    if save.dead_letter is not None:
        chain.dead_letters.append(save.dead_letter)
