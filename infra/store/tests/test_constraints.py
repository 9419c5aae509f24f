"""The databases refuse rows that break the rules of the code, also from clients that bypass it."""

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest
from infra.store.tests.raw_sql import RULE_BROKEN, run_sql
from tests.conformance.job_rules import JOB_RULES, WITH_ATTEMPT
from tests.store_rows import breaker_row, died, queued_job, raised_incident, running_job

from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import TickStatus
from warrener_contracts.policy import Guarantee
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import StateStore
from warrener_store.audit.rows import AuditOutcome
from warrener_store.dead_letters.rows import UNRESOLVED, DeadLetterState, RedriveKind, RedriveState
from warrener_store.jobs.rows import AttemptOutcome
from warrener_store.migrations import HISTORY, NEEDED
from warrener_store.statistics.rows import SeriesKind

MOMENT = "'2026-11-20T12:00:00.000000Z'"
JOB = "019440f7-3a00-7c3e-8f21-5b0a4d9e6c11"

JOB_UPDATES = {
    "state_known": ["state = 'flying'", "state = ''"],
    "guarantee_known": ["guarantee = 'hoped'"],
    "version_from_one": ["version = 0"],
    "counts_not_negative": ["failures = -1", "losses = -1", "state = 'waiting', attempt = -1"],
    "over_iff_finished_at": [f"finished_at = {MOMENT}", "state = 'dead', wake_at = NULL"],
    "over_iff_never_woken": ["wake_at = NULL", f"state = 'dead', finished_at = {MOMENT}"],
    "running_has_owner_and_lease": [
        "state = 'running', agent_id = 'a1'",
        f"state = 'running', lease_until = {MOMENT}",
    ],
    "attempt_where_dispatched": [
        "attempt = 0",
        "state = 'retrying', attempt = 0",
        "state = 'suspended', attempt = 0",
    ],
    "no_attempt_while_waiting": ["state = 'waiting'"],
    "result_only_if_succeeded": [
        "result = '1'",
        f"state = 'dead', result = '1', wake_at = NULL, finished_at = {MOMENT}",
    ],
    "suspensions_not_negative": ["suspensions = -1"],
    "ending_known": ["ending = 'succeeded'", "ending = 'suspended'"],
    "progress_is_a_fraction": ["progress = 1.01", "progress = -0.01"],
    "ran_only_if_succeeded": [f"run_started_at = {MOMENT}", f"run_finished_at = {MOMENT}"],
    "deadline_watched_until_over": [
        f"deadline_wake_at = {MOMENT}",
        f"state = 'dead', wake_at = NULL, finished_at = {MOMENT}, deadline_at = {MOMENT}, "
        f"deadline_wake_at = {MOMENT}",
    ],
}
"""Updates of a queued job, by the constraint that refuses them."""

OTHER_UPDATES = {
    "attempt_from_one": "warrener_attempts SET attempt = 0",
    "outcome_known": "warrener_attempts SET outcome = 'vanished'",
    "attempts_not_negative": "warrener_dead_letters SET attempts = -1",
    "breaker_state_known": "warrener_breakers SET state = 'ajar'",
    "dead_letter_state_known": "warrener_dead_letters SET state = 'risen'",
    "counted_state_known": "warrener_job_counts SET state = 'flying'",
    "incident_counts_not_negative": "warrener_incidents SET round = 0",
    "closed_incident_sleeps": f"warrener_incidents SET closed_at = {MOMENT}",
    "steps_done_not_negative": "warrener_incident_occurrences SET steps_done = -1",
}

REDRIVE = (
    f"warrener_redrives VALUES ('{JOB}', '%s', '{{}}', '', '', {MOMENT}, 1, '%s', '', '{{}}', {MOMENT}, "
    f"'{{}}', '[]', NULL, NULL, NULL, {MOMENT}, NULL)"
)
INSERTS = {
    "number_from_one": f"warrener_checkpoints VALUES ('{UUID(int=1)}', 1, 0, NULL, {MOMENT})",
    "turn_from_one": f"warrener_workflow_turns VALUES ('{UUID(int=1)}', 0, '[]', NULL, NULL, NULL)",
    "slots_from_one": f"warrener_gates VALUES ('job/t', 0, {MOMENT}, NULL, NULL)",
    "set_slots_from_one": f"warrener_gates VALUES ('job/t', 1, {MOMENT}, NULL, 0)",
    "slot_from_one": f"warrener_slots VALUES ('job/t', 0, '{UUID(int=1)}', 1, {MOMENT})",
    "lines_in_order": "warrener_attempt_logs VALUES "
    f"('{UUID(int=1)}', 1, {MOMENT}, 2, 1, 1, 'a1', true, 1, '[]')",
    "guarantee_known": "warrener_job_types VALUES "
    f"('t', 'q', '{{}}', NULL, 'hoped', '{{}}', '', 'a1', {MOMENT}, NULL, NULL)",
    "redrive_kind_known": REDRIVE % ("revive", "done"),
    "redrive_state_known": REDRIVE % ("drop", "lost"),
    "audit_outcome_known": "warrener_audit VALUES "
    f"('{JOB}', {MOMENT}, 'ada', 'admin', 'token', '', 'job.cancel', '', '', 'hoped', '', {MOMENT})",
    "audit_end_known_iff_completed": "warrener_audit VALUES "
    f"('{JOB}', {MOMENT}, 'ada', 'admin', 'token', '', 'job.cancel', '', '', 'accepted', '', NULL)",
    "slots_not_negative": f"warrener_agents VALUES ('a1', 'h', 1, '[]', -1, 0, true, {MOMENT}, {MOMENT}, "
    "NULL, NULL, NULL, NULL, NULL)",
    "runs_not_negative": "warrener_schedules VALUES "
    f"('s', '{{}}', {MOMENT}, 'v', false, NULL, NULL, NULL, -1, 0, NULL, NULL, '')",
    "something_expected": "warrener_schedule_watches (name, since, check_at) "
    f"VALUES ('s', {MOMENT}, {MOMENT})",
    "series_kind_known": "warrener_statistics VALUES "
    f"(60, 'queue', '', {MOMENT}, '', 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, '')",
    "one_position": f"warrener_statistics_position VALUES (2, 1, {MOMENT}, '{JOB}', {MOMENT})",
    "one_installation": f"warrener_installation VALUES (2, '{JOB}', NULL)",
    "status_known": "warrener_ticks VALUES "
    f"('s', {MOMENT}, 'late', {MOMENT}, {MOMENT}, '', NULL, NULL, NULL, NULL)",
    "request_until_fired": "warrener_ticks VALUES "
    f"('s', {MOMENT}, 'fired', {MOMENT}, {MOMENT}, '', NULL, NULL, NULL, '{{}}')",
}


async def refused(url: str, statement: str, because: str) -> None:
    with pytest.raises(RULE_BROKEN, match=because):
        await run_sql(url, statement)


async def test_a_job_cannot_be_brought_to_what_may_not_be(
    store: StateStore, url: str, subtests: pytest.Subtests
) -> None:
    await store.insert_jobs([queued_job()])
    for rule, changes in JOB_UPDATES.items():
        for change in changes:
            with subtests.test(rule=rule, change=change):
                await refused(url, f"UPDATE warrener_jobs SET {change}", rule)


async def test_nor_can_the_rows_beside_it(store: StateStore, url: str, subtests: pytest.Subtests) -> None:
    row = running_job()
    await store.insert_jobs([row])
    await store.save_jobs([died(row)])
    await store.put_breaker(breaker_row())
    await store.escalations.raise_incidents([raised_incident()])
    for rule, update in OTHER_UPDATES.items():
        with subtests.test(rule=rule):
            await refused(url, f"UPDATE {update}", rule)


async def test_nor_what_agents_announce_and_what_schedules_are(url: str, subtests: pytest.Subtests) -> None:
    for rule, insert in INSERTS.items():
        with subtests.test(rule=rule):
            await refused(url, f"INSERT INTO {insert}", rule)


WORD_LISTS: Mapping[str, Iterable[str]] = {
    "state_known": JobState,
    "counted_state_known": JobState,
    "guarantee_known": Guarantee,
    "outcome_known": AttemptOutcome,
    "over_iff_finished_at": TERMINAL,
    "over_iff_never_woken": TERMINAL,
    "deadline_watched_until_over": TERMINAL,
    "attempt_where_dispatched": WITH_ATTEMPT,
    "ending_known": TERMINAL - {JobState.SUCCEEDED},
    "dead_letter_state_known": DeadLetterState,
    "warrener_dead_letters_unresolved": UNRESOLVED,
    "redrive_kind_known": RedriveKind,
    "redrive_state_known": RedriveState,
    "status_known": TickStatus,
    "breaker_state_known": BreakerState,
    "audit_outcome_known": AuditOutcome,
    "series_kind_known": SeriesKind,
}
"""The words that a rule or an index lists, as the code has them."""


def rules_and_indexes() -> list[tuple[str, str]]:
    """The names and definitions of the needed revision."""
    lines = (HISTORY / "schemas" / f"{NEEDED}.postgres.txt").read_text("utf-8").splitlines()
    named = (re.fullmatch(r"(?:rule|index) \w+\.(\w+) (.*)", line) for line in lines)
    return [(found[1], found[2]) for found in named if found]


def test_every_check_of_every_table_is_tried_and_every_rule_of_the_code_is_one() -> None:
    checks = {name for name, definition in rules_and_indexes() if definition.startswith("CHECK")}
    assert checks == {*JOB_UPDATES, *OTHER_UPDATES, *INSERTS}
    assert set(JOB_RULES) <= set(JOB_UPDATES), "every rule of the code is a check of the database"


def test_the_tables_know_all_words_of_the_code_and_no_others(subtests: pytest.Subtests) -> None:
    listing = [each for each in rules_and_indexes() if "ARRAY[" in each[1]]
    assert {name for name, _ in listing} == set(WORD_LISTS)
    for name, definition in listing:
        with subtests.test(name):
            assert set(re.findall(r"'(\w+)'::text", definition)) == set(WORD_LISTS[name])


async def test_ids_keys_and_rows_beside_a_job_are_unique_and_of_a_job_that_there_is(
    store: StateStore, url: str, subtests: pytest.Subtests
) -> None:
    first, second, dead = queued_job(idempotency_key="k"), queued_job(), running_job()
    await store.insert_jobs([first, second, dead])
    await store.save_jobs([died(dead)])
    parked = "warrener_parked (parked_id, queue, reason, detail, body, parked_at) VALUES"
    tick = f"'s', {MOMENT}, 'skipped', {MOMENT}, {MOMENT}, '', NULL, NULL, NULL, NULL"
    once = (
        f"INSERT INTO {parked} ('m1', 'q', 'r', 'd', '', {MOMENT})",
        f"INSERT INTO warrener_ticks VALUES ({tick})",
    )
    for insert in once:
        await run_sql(url, insert)
    unknown = "SET job_id = '00000000-0000-0000-0000-000000000001'"
    statements = {
        f"UPDATE warrener_jobs SET job_id = '{first.job_id}'": "(?i)unique",
        "UPDATE warrener_jobs SET idempotency_key = 'k'": "(?i)unique",
        "INSERT INTO warrener_attempts SELECT * FROM warrener_attempts": "(?i)unique",
        f"UPDATE warrener_attempts {unknown}": "(?i)foreign key",
        f"UPDATE warrener_dead_letters {unknown}": "(?i)foreign key",
        **dict.fromkeys(once, "(?i)unique"),
    }
    for statement, because in statements.items():
        with subtests.test(statement):
            await refused(url, statement, because)


async def test_what_every_job_has_cannot_be_missing(
    store: StateStore, url: str, subtests: pytest.Subtests
) -> None:
    await store.insert_jobs([queued_job()])
    for column in ("job_type", "arguments", "policy", "state", "attempt", "watchers"):
        with subtests.test(column=column):
            await refused(url, f"UPDATE warrener_jobs SET {column} = NULL", "(?i)not.null")
