"""The statements that list, count and group dead letters, made for what is asked. Pure."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from warrener_store.dead_letters import LetterFilter
from warrener_store.records.ends import LETTER_COLUMNS
from warrener_store.records.form import Form, text_out

LETTER = ", ".join(f"letter.{column}" for column in LETTER_COLUMNS)

Statement = tuple[str, tuple[Any, ...]]


class _Parameters:
    """Those of one statement, in order."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def told(self, value: Any) -> str:
        """What stands for `value` in the statement."""
        self.values.append(value)
        return f"${len(self.values)}"


def letters_text(which: LetterFilter, form: Form) -> Statement:
    """The letters, by when their jobs died."""
    parameters = _Parameters()
    way = "" if which.oldest_first else " DESC"
    text = (
        f"SELECT {LETTER} FROM warrener_dead_letters AS letter WHERE {_wanted(which, form, parameters.told)} "  # noqa: S608 - values are parameters
        f"ORDER BY letter.died_at{way}, letter.job_id{way} LIMIT {parameters.told(which.limit)}"
    )
    return text, tuple(parameters.values)


def counts_text(which: LetterFilter, form: Form) -> Statement:
    """(state, how many)."""
    parameters = _Parameters()
    text = (
        "SELECT letter.state, count(*) FROM warrener_dead_letters AS letter "  # noqa: S608 - values are parameters
        f"WHERE {_wanted(which, form, parameters.told)} GROUP BY letter.state"
    )
    return text, tuple(parameters.values)


def groups_text(which: LetterFilter, form: Form) -> Statement:
    """(fingerprint, job type, how many, first and last death, the id of the last that died)."""
    parameters = _Parameters()
    wanted = _wanted(which, form, parameters.told)
    text = (
        "SELECT fingerprint, job_type, letters, first_died_at, died_at, job_id FROM ("  # noqa: S608 - values are parameters
        "SELECT letter.fingerprint, letter.job_type, letter.died_at, letter.job_id, "
        f"count(*) OVER {_CAUSE} AS letters, min(letter.died_at) OVER {_CAUSE} AS first_died_at, "
        "row_number() OVER (PARTITION BY letter.fingerprint, letter.job_type "
        "ORDER BY letter.died_at DESC, letter.job_id DESC) AS place "
        f"FROM warrener_dead_letters AS letter WHERE {wanted}) AS grouped "
        f"WHERE place = 1 ORDER BY died_at DESC, job_id DESC LIMIT {parameters.told(which.limit)}"
    )
    return text, tuple(parameters.values)


_CAUSE = "(PARTITION BY letter.fingerprint, letter.job_type)"


def redriven_text(job_ids: Sequence[UUID], form: Form) -> Statement:
    """The letters in whose place these jobs were asked for."""
    parameters = _Parameters()
    ids = _list(map(form.id_out, job_ids), parameters.told)
    text = f"SELECT {LETTER} FROM warrener_dead_letters AS letter WHERE letter.redriven_as IN {ids}"  # noqa: S608 - values are parameters
    return text, tuple(parameters.values)


def heirs_text(campaign_id: UUID, unheard_before: Any, limit: int, form: Form) -> Statement:
    """The columns of the letter, the state of its heir, and of what that died."""
    text = (
        f"SELECT {LETTER}, job.state, heir.fingerprint FROM warrener_dead_letters AS letter "  # noqa: S608 - values are parameters
        "LEFT JOIN warrener_jobs AS job ON job.job_id = letter.redriven_as "
        "LEFT JOIN warrener_dead_letters AS heir ON heir.job_id = letter.redriven_as "
        "WHERE letter.campaign_id = $1 AND letter.state = 'asked' "
        "AND (job.finished_at IS NOT NULL OR (job.job_id IS NULL AND letter.asked_at <= $2)) "
        "ORDER BY letter.died_at, letter.job_id LIMIT $3"
    )
    return text, (form.id_out(campaign_id), form.moment_out(unheard_before), limit)


def succeeded_text(requests: Sequence[str], job_types: Sequence[str], since: Any, form: Form) -> Statement:
    """(id, type, request, accepted at) of jobs that have succeeded."""
    parameters = _Parameters()
    types = _list(map(text_out, job_types), parameters.told)
    accepted = parameters.told(form.moment_out(since))
    named = _list(requests, parameters.told)
    text = (
        "SELECT job.job_id, job.job_type, job.fingerprint, job.accepted_at FROM warrener_jobs AS job "  # noqa: S608 - values are parameters
        f"WHERE job.state = 'succeeded' AND job.job_type IN {types} AND job.accepted_at > {accepted} "
        f"AND job.fingerprint IN {named}"
    )
    return text, tuple(parameters.values)


def _wanted(which: LetterFilter, form: Form, told: Callable[[Any], str]) -> str:
    """The conditions. States stand as words: an index that holds some of them is found by its words."""
    conditions: list[str] = []
    if which.states:
        words = ", ".join(f"'{state.value}'" for state in which.states)
        conditions.append(f"letter.state IN ({words})")
    if which.job_ids:
        conditions.append(f"letter.job_id IN {_list(map(form.id_out, which.job_ids), told)}")
    pairs = (
        ("fingerprint =", which.fingerprint),
        ("job_type =", text_out(which.job_type)),
        ("died_at >=", form.moment_out(which.died_after)),
        ("died_at <", form.moment_out(which.died_before)),
        ("campaign_id =", form.id_out(which.campaign_id)),
    )
    conditions += [f"letter.{compared} {told(value)}" for compared, value in pairs if value is not None]
    if which.not_by is not None:
        other = told(form.id_out(which.not_by))
        conditions.append(f"(letter.campaign_id IS NULL OR letter.campaign_id <> {other})")
    if which.after is not None:
        died_at, job_id = which.after
        sign = ">" if which.oldest_first else "<"
        place = f"({told(form.moment_out(died_at))}, {told(form.id_out(job_id))})"
        conditions.append(f"(letter.died_at, letter.job_id) {sign} {place}")
    return " AND ".join(conditions) or "TRUE"


def _list(values: Any, told: Callable[[Any], str]) -> str:
    return f"({', '.join(told(value) for value in values)})"
