"""Quarantine jobs whose attempts keep ending the process that runs them.

The job's error carries its deaths: so the store has them after each restart, and the dead letter shows
them, without a column of their own.
"""

from dataclasses import replace
from typing import NamedTuple

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_store.jobs.rows import JobRow, evolve
from warrener_supervisor.decisions.context import JobTransition, NoChange

LOST = "lost"
"""Type of the error of a lost attempt."""
_MAX_DEATH_LENGTH = 200  # characters that are stored of one death
_FIRST, _LAST = 5, 5
"""Number of first and last deaths that are stored; of those between, their count. Each change of the row
writes them."""


class _Deaths(NamedTuple):
    """All deaths of a job so far."""

    named: tuple[str, ...] = ()
    unnamed: int = 0

    @property
    def total(self) -> int:
        return len(self.named) + self.unnamed


def _deaths_in(error: ErrorInfo | None) -> _Deaths:
    return _Deaths(error.crashes, error.crashes_omitted) if error else _Deaths()


def _with(error: ErrorInfo, deaths: _Deaths) -> ErrorInfo:
    return error.model_copy(update={"crashes": deaths.named, "crashes_omitted": deaths.unnamed})


def loss_message(agent_id: str, since: str, *, not_in_heartbeat: bool) -> str:
    """Explain why an attempt counts as lost."""
    what = "not named it since" if not_in_heartbeat else "not sent a heartbeat since"
    return f"agent {agent_id} has {what} {since}"


def revoke_loss(row: JobRow, attempt: int, agent_id: str) -> JobRow | None:
    """Return `row` without the charge for a lost attempt that this agent runs or has reported after all.

    None if no loss of it is charged. Revoking removes the loss from the job's deaths, so it happens once.
    """
    error, deaths = row.error, _deaths_in(row.error)
    charge = f"attempt {attempt}: {LOST}: agent {agent_id} has not "
    named = tuple(death for death in deaths.named if not death.startswith(charge))
    if error is None or len(named) == len(deaths.named):
        return None
    left = _Deaths(named, deaths.unnamed)
    forgotten = error.kind is ErrorKind.LOST and not left.total
    return evolve(row, losses=max(row.losses - 1, 0), error=None if forgotten else _with(error, left))


def error_with_deaths(row: JobRow, error: ErrorInfo) -> ErrorInfo:
    """Return the error of the current attempt of `row`, with all deaths so far."""
    deaths = _deaths_in(row.error)
    if error.kind in {ErrorKind.CRASH, ErrorKind.LOST}:
        death = f"attempt {row.attempt}: {error.type}: {error.message}"[:_MAX_DEATH_LENGTH]
        named, unnamed = (*deaths.named, death), deaths.unnamed
        if len(named) > _FIRST + _LAST:
            named, unnamed = named[:_FIRST] + named[_FIRST + 1 :], unnamed + 1
        deaths = _Deaths(named, unnamed)
    return error if deaths == _deaths_in(error) else _with(error, deaths)


def charge_agent_death(row: JobRow) -> JobRow:
    """Charge an attempt that another agent has to begin again.

    The broker redelivers it before anybody has missed the first agent, so this counts as a death too.
    """
    message = f"agent {row.agent_id} has died, or was cut off, while it ran it"
    lost = ErrorInfo(kind=ErrorKind.LOST, type=LOST, message=message)
    return evolve(row, error=error_with_deaths(row, lost))


def quarantine_reason(charged: JobRow) -> str | None:
    """Explain why no further attempt is made, if `charged` has too many deaths in its error."""
    deaths = _deaths_in(charged.error)
    if deaths.total < charged.policy.quarantine_threshold:
        return None
    return f"quarantined as poison: {deaths.total} attempts ended with their process"


def keep_deaths(row: JobRow, decision: JobTransition | NoChange) -> JobTransition | NoChange:
    """Carry the job's deaths over into the error of `decision`."""
    if isinstance(decision, NoChange) or not (row.error and row.error.crashes):
        return decision
    error = decision.row.error
    if error is row.error or error is None or error.crashes:
        return decision
    merged = _with(error, _deaths_in(row.error))
    dead_letter = decision.dead_letter
    if dead_letter is not None:
        dead_letter = replace(dead_letter, error=merged)
    return decision._replace(row=evolve(decision.row, error=merged), dead_letter=dead_letter)
