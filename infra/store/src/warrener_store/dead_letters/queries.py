"""The statements that list, count and group dead letters by a filter. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from warrener_store.dead_letters import rows
from warrener_store.dead_letters.columns import DEAD_LETTER
from warrener_store.mapping import POSTGRES_CODEC, ColumnCodec, encode_text
from warrener_store.statements import Parameters

Statement = tuple[str, tuple[Any, ...]]


def dead_letters_query(which: rows.DeadLetterFilter, codec: ColumnCodec) -> Statement:
    """Dead letters, by when their jobs died."""
    parameters = Parameters()
    way = "" if which.oldest_first else " DESC"
    text = (
        f"SELECT {DEAD_LETTER} FROM warrener_dead_letters AS dead_letter WHERE "  # noqa: S608 - values are parameters
        f"{_conditions(which, codec, parameters.bind)} "
        f"ORDER BY dead_letter.died_at{way}, dead_letter.job_id{way} LIMIT {parameters.bind(which.limit)}"
    )
    return text, tuple(parameters.values)


def counts_query(which: rows.DeadLetterFilter, codec: ColumnCodec) -> Statement:
    """(state, number)."""
    parameters = Parameters()
    text = (
        "SELECT dead_letter.state, count(*) FROM warrener_dead_letters AS dead_letter "  # noqa: S608 - values are parameters
        f"WHERE {_conditions(which, codec, parameters.bind)} GROUP BY dead_letter.state"
    )
    return text, tuple(parameters.values)


def groups_query(which: rows.DeadLetterFilter, codec: ColumnCodec) -> Statement:
    """(fingerprint, job type, number, first and last death, the id of the last job that died)."""
    parameters = Parameters()
    conditions = _conditions(which, codec, parameters.bind)
    text = (
        "SELECT fingerprint, job_type, dead_letters, first_died_at, died_at, job_id FROM ("  # noqa: S608 - values are parameters
        "SELECT dead_letter.fingerprint, dead_letter.job_type, dead_letter.died_at, dead_letter.job_id, "
        f"count(*) OVER {_CAUSE} AS dead_letters, min(dead_letter.died_at) OVER {_CAUSE} AS first_died_at, "
        "row_number() OVER (PARTITION BY dead_letter.fingerprint, dead_letter.job_type "
        "ORDER BY dead_letter.died_at DESC, dead_letter.job_id DESC) AS place "
        f"FROM warrener_dead_letters AS dead_letter WHERE {conditions}) AS grouped "
        f"WHERE place = 1 ORDER BY died_at DESC, job_id DESC LIMIT {parameters.bind(which.limit)}"
    )
    return text, tuple(parameters.values)


_STATES = ", ".join(f"'{state.value}'" for state in rows.UNRESOLVED)
_UNRESOLVED = f"dead_letter.state IN ({_STATES})"
_OF_CAUSE = (
    f"FROM warrener_dead_letters AS dead_letter WHERE {_UNRESOLVED} "
    "AND dead_letter.fingerprint = cause.fingerprint"
)


def causes_query(limit: int, fingerprint: str | None, job_type: str | None) -> Statement:
    """(fingerprint, first death, id of the last job that died, number).

    Each step goes to one end of a cause's part of the index of unresolved dead letters.
    """
    parameters = Parameters()
    conditions, cause = "", _ALL_CAUSES
    if fingerprint is not None:
        cause = f"SELECT CAST({parameters.bind(fingerprint)} AS text) AS fingerprint"
    if job_type is not None:
        conditions = f"WHERE newest.job_type = {parameters.bind(encode_text(job_type))}"
    text = (
        f"SELECT cause.fingerprint, (SELECT dead_letter.died_at {_OF_CAUSE} "  # noqa: S608 - values are parameters
        "ORDER BY dead_letter.died_at, dead_letter.job_id LIMIT 1), cause.job_id, "
        f"(SELECT count(*) FROM (SELECT 1 {_OF_CAUSE} LIMIT {rows.MAX_COUNTED_DEATHS}) AS counted) FROM ("
        "SELECT newest.fingerprint, newest.died_at, newest.job_id FROM ("
        f"SELECT cause.fingerprint, (SELECT dead_letter.job_id {_OF_CAUSE} "
        "ORDER BY dead_letter.died_at DESC, dead_letter.job_id DESC LIMIT 1) AS job_id "
        f"FROM ({cause}) AS cause) AS found "
        f"JOIN warrener_dead_letters AS newest ON newest.job_id = found.job_id {conditions} "
        f"ORDER BY newest.died_at DESC, newest.job_id DESC LIMIT {parameters.bind(limit)}"
        ") AS cause ORDER BY cause.died_at DESC, cause.job_id DESC"
    )
    return text, tuple(parameters.values)


_ALL_CAUSES = (
    "WITH RECURSIVE step (fingerprint) AS ("  # noqa: S608 - made of constants alone
    f"SELECT min(dead_letter.fingerprint) FROM warrener_dead_letters AS dead_letter WHERE {_UNRESOLVED} "
    "UNION ALL SELECT (SELECT min(dead_letter.fingerprint) FROM warrener_dead_letters AS dead_letter "
    f"WHERE {_UNRESOLVED} AND dead_letter.fingerprint > step.fingerprint) "
    "FROM step WHERE step.fingerprint IS NOT NULL"
    f") SELECT step.fingerprint FROM step WHERE step.fingerprint IS NOT NULL LIMIT {rows.MAX_COMPARED_CAUSES}"
)
"""One step in the index for each cause."""


def deaths_query(fingerprints: Sequence[str], since: Any, codec: ColumnCodec) -> Statement:
    """(fingerprint, hour, number): the newest MAX_COUNTED_DEATHS of each of these causes since then."""
    parameters = Parameters()
    moment = parameters.bind(codec.encode_moment(since))
    hour = "date_trunc('hour', died_at)" if codec is POSTGRES_CODEC else "substr(died_at, 1, 13) || ':00Z'"
    parts: list[str] = []
    for fingerprint in fingerprints:
        name = f"CAST({parameters.bind(fingerprint)} AS text)"
        parts.append(
            f"SELECT {name}, {hour}, count(*) FROM ("  # noqa: S608 - values are parameters
            f"SELECT dead_letter.died_at FROM warrener_dead_letters AS dead_letter WHERE {_UNRESOLVED} "
            f"AND dead_letter.fingerprint = {name} AND dead_letter.died_at >= {moment} "
            f"ORDER BY dead_letter.died_at DESC LIMIT {rows.MAX_COUNTED_DEATHS}) AS newest GROUP BY 2"
        )
    return " UNION ALL ".join(parts), tuple(parameters.values)


_CAUSE = "(PARTITION BY dead_letter.fingerprint, dead_letter.job_type)"


def _conditions(which: rows.DeadLetterFilter, codec: ColumnCodec, bind: Callable[[Any], str]) -> str:
    """The conditions. States are literals, so that the planner finds the partial index on some of them."""
    conditions: list[str] = []
    if which.states:
        words = ", ".join(f"'{state.value}'" for state in which.states)
        conditions.append(f"dead_letter.state IN ({words})")
    if which.job_ids:
        conditions.append(f"dead_letter.job_id IN {_list(map(codec.encode_id, which.job_ids), bind)}")
    if which.redriven_as:
        conditions.append(
            f"dead_letter.redriven_as IN {_list(map(codec.encode_id, which.redriven_as), bind)}"
        )
    pairs = (
        ("fingerprint =", which.fingerprint),
        ("job_type =", encode_text(which.job_type)),
        ("died_at >=", codec.encode_moment(which.died_after)),
        ("died_at <", codec.encode_moment(which.died_before)),
        ("redrive_id =", codec.encode_id(which.redrive_id)),
    )
    conditions += [f"dead_letter.{compared} {bind(value)}" for compared, value in pairs if value is not None]
    if which.not_by is not None:
        other = bind(codec.encode_id(which.not_by))
        conditions.append(f"(dead_letter.redrive_id IS NULL OR dead_letter.redrive_id <> {other})")
    if which.after is not None:
        died_at, job_id = which.after
        sign = ">" if which.oldest_first else "<"
        place = f"({bind(codec.encode_moment(died_at))}, {bind(codec.encode_id(job_id))})"
        conditions.append(f"(dead_letter.died_at, dead_letter.job_id) {sign} {place}")
    return " AND ".join(conditions) or "TRUE"


def _list(values: Any, bind: Callable[[Any], str]) -> str:
    return f"({', '.join(bind(value) for value in values)})"
