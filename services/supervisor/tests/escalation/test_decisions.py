"""What is decided about incidents: pure, so that any policy can be played through any trouble on virtual
time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.supervisor.tests.stage import NOW

from warrener_store.incidents.rows import IncidentRow
from warrener_supervisor.escalation.alerts import next_report
from warrener_supervisor.escalation.decisions import (
    MAX_TRIES,
    RunStep,
    SkipStep,
    WaitUntil,
    advance,
    decide,
    fail_step,
    late_step,
    pause_after,
    quiet_hours_end,
)
from warrener_supervisor.escalation.policy import (
    WEEK,
    AlertStep,
    AnyStep,
    CloseStep,
    CompensateStep,
    DigestPlan,
    DigestStep,
    Escalation,
    EscalationPolicy,
    ParkStep,
    QuietPeriod,
    RetryStep,
    Weekday,
)
from warrener_supervisor.escalation.simulate import EscalationSimulation, Scenario, TimelineEntry

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietPeriod.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"})
WEEKEND = QuietPeriod.model_validate(
    {"from": "00:00", "to": "00:00", "zone": "Europe/Berlin", "days": ["sat", "sun"]}
)


def at(day: str, clock: str) -> datetime:
    """That time of that day in Berlin."""
    return datetime.combine(date.fromisoformat(day), time.fromisoformat(clock), BERLIN).astimezone(UTC)


def incident(**fields: object) -> IncidentRow:
    plain = IncidentRow(
        fingerprint="f1",
        kind="job.dead",
        subject="the job",
        job_type="bank.pay",
        sample={},
        times=1,
        first_seen_at=NOW,
        last_seen_at=NOW,
        wake_at=NOW,
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def policy(*steps: AnyStep) -> EscalationPolicy:
    return EscalationPolicy(name="test", steps=steps)


MINUTE = timedelta(minutes=1)
ALERT, URGENT = AlertStep(do="alert"), AlertStep(do="alert", urgent=True)


class TestQuietHours:
    @pytest.mark.parametrize(
        ("day", "clock", "until"),
        [
            ("2026-11-19", "21:59", None),
            ("2026-11-19", "22:00", ("2026-11-20", "07:00")),
            ("2026-11-20", "06:59", ("2026-11-20", "07:00")),
            ("2026-11-20", "07:00", None),
            ("2026-11-20", "23:00", ("2026-11-23", "07:00")),  # a Friday: the weekend and its nights follow
            ("2026-11-22", "12:00", ("2026-11-23", "07:00")),
        ],
    )
    def test_nights_and_weekends_are_one_quiet(
        self, day: str, clock: str, until: tuple[str, str] | None
    ) -> None:
        assert quiet_hours_end([NIGHT, WEEKEND], at(day, clock)) == (until and at(*until))

    def test_a_night_in_which_the_clock_is_changed_ends_at_seven_and_one_without_end_is_none(self) -> None:
        assert quiet_hours_end([NIGHT], at("2026-10-24", "23:00")) == datetime(2026, 10, 25, 6, tzinfo=UTC)
        assert quiet_hours_end([NIGHT], at("2026-03-28", "23:00")) == datetime(2026, 3, 29, 5, tzinfo=UTC)
        assert quiet_hours_end([QuietPeriod.model_validate({"from": "00:00", "to": "00:00"})], NOW) is None


class TestDecisions:
    def test_a_step_is_due_in_its_time_counted_from_the_step_before(self) -> None:
        policy_ = policy(ParkStep(do="park", after=MINUTE), AlertStep(do="alert", after=2 * MINUTE))
        new = incident()
        assert decide(new, policy_, [], NOW) == WaitUntil(NOW + MINUTE, "park is due then")
        parked = advance(new, policy_, NOW + MINUTE)
        assert (parked.step, parked.wake_at) == (1, NOW + 3 * MINUTE)
        assert isinstance(decide(parked, policy_, [], NOW + 2 * MINUTE), WaitUntil)
        assert decide(parked, policy_, [], NOW + 3 * MINUTE) == RunStep(policy_.steps[1])

    def test_at_the_end_of_its_policy_it_rests(self) -> None:
        rest = advance(incident(), policy(ALERT), NOW)
        assert (rest.step, rest.wake_at, rest.closed_at) == (1, None, None)
        assert decide(rest, policy(ALERT), [], NOW) == WaitUntil(None, "its policy is at its end")

    def test_quiet_hours_hold_alerts_back_and_nothing_else(self) -> None:
        night, morning = at("2026-11-19", "23:00"), at("2026-11-20", "07:00")
        found = incident(first_seen_at=night)
        assert decide(found, policy(ALERT), [NIGHT], night) == WaitUntil(morning, "quiet hours")
        for step in (URGENT, RetryStep(do="retry"), DigestStep(do="digest"), CloseStep(do="close")):
            assert decide(found, policy(step), [NIGHT], night) == RunStep(step)

    def test_acknowledged_it_alerts_no_more_and_snoozed_it_does_nothing(self) -> None:
        assert isinstance(decide(incident(acknowledged_by="ann"), policy(URGENT), [], NOW), SkipStep)
        assert decide(incident(acknowledged_by="ann"), policy(CloseStep(do="close")), [], NOW) == RunStep(
            CloseStep(do="close")
        )
        snoozed = incident(snoozed_until=NOW + MINUTE)
        assert decide(snoozed, policy(URGENT), [], NOW) == WaitUntil(NOW + MINUTE, "snoozed")
        assert decide(snoozed, policy(URGENT), [], NOW + MINUTE) == RunStep(URGENT)
        lost = incident(kind="agent.lost")  # there is no job to retry
        assert isinstance(decide(lost, policy(RetryStep(do="retry")), [], NOW), SkipStep)

    def test_what_comes_late_gets_the_last_step_for_each_job_that_is_passed(self) -> None:
        steps = policy(RetryStep(do="retry"), ALERT, CompensateStep(do="compensate", job_type="undo"), ALERT)
        assert [late_step(incident(step=step), steps) for step in range(5)] == [None, 0, 0, 2, 2]

    def test_pauses_grow_and_the_policy_goes_on_without_a_step_that_never_works(self) -> None:
        assert [pause_after(tries).total_seconds() for tries in (1, 2, 3, 7, 99)] == [5, 10, 20, 300, 300]
        row = incident()
        for _ in range(MAX_TRIES):
            row = fail_step(row, policy(ALERT, CloseStep(do="close")), NOW, "no")
        assert (row.step, row.failed_tries) == (1, 0)
        assert row.last_error == "alert given up after 12 tries: no"


class TestDigests:
    @given(
        st.integers(0, 730 * 86_400).map(lambda seconds: NOW + timedelta(seconds=seconds)),
        st.times(timezones=st.none()).map(lambda moment: moment.replace(microsecond=0, fold=0)),
        st.sets(st.sampled_from(WEEK), min_size=1),
    )
    def test_the_next_report_is_later_on_a_day_of_the_plan_and_none_lies_between(
        self, now: datetime, clock: time, days: set[Weekday]
    ) -> None:
        plan = DigestPlan(at=clock, days=tuple(days), zone=BERLIN)
        following = next_report(plan, now)
        assert now < following <= now + timedelta(days=8)
        assert WEEK[following.astimezone(BERLIN).weekday()] in days
        assert next_report(plan, following - timedelta(seconds=1)) == following


AFTER = st.integers(0, 600).map(lambda minutes: minutes * MINUTE)
STEPS: st.SearchStrategy[AnyStep] = st.one_of(
    st.builds(
        AlertStep, do=st.just("alert"), after=AFTER, urgent=st.booleans(), title=st.none(), text=st.none()
    ),
    st.builds(ParkStep, do=st.just("park"), after=AFTER),
    st.builds(DigestStep, do=st.just("digest"), after=AFTER),
    st.builds(RetryStep, do=st.just("retry"), after=AFTER),
    st.builds(CompensateStep, do=st.just("compensate"), job_type=st.just("undo"), after=AFTER),
)


SCENES = st.builds(
    Scenario,
    at=st.integers(0, 167).map(lambda hours: NOW + timedelta(hours=hours)),
    times=st.integers(1, 6),
    every=st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds)),
    acknowledged_after=st.none() | st.integers(0, 86_400).map(lambda seconds: timedelta(seconds=seconds)),
)


def _once(step: AnyStep) -> object:
    """A policy has one retry, and one compensation by each job type."""
    return step.do if isinstance(step, RetryStep | CompensateStep) else id(step)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=6, unique_by=_once),
    end=st.sampled_from([(), (CloseStep(do="close", after=timedelta(days=9)),)]),
    scenario=SCENES,
)
def test_whatever_the_policy_and_the_trouble_nothing_is_sent_twice_or_at_the_wrong_time(
    steps: list[AnyStep], end: tuple[AnyStep, ...], scenario: Scenario
) -> None:
    file = Escalation.model_validate({"quiet": {"night": NIGHT}}).model_copy(
        update={"policies": (EscalationPolicy(name="all", quiet="night", steps=(*steps, *end)),)}
    )
    timeline = asyncio.run(EscalationSimulation(file, scenario).play())
    of: dict[str, list[TimelineEntry]] = {}
    for each in timeline:
        of.setdefault(each.what, []).append(each)
    assert [each.at for each in timeline] == sorted(each.at for each in timeline)
    check_alerts(of.get("alert", ()), steps, scenario)
    kinds = {step.do for step in steps}
    for what in ("retry", "compensate"):
        assert len(of.get(what, ())) <= scenario.times * (what in kinds), "each job is asked for at most once"
    if "retry" not in kinds:
        assert len(of.get("compensate", ())) == scenario.times * ("compensate" in kinds), "none is forgotten"
    assert (timeline[-1].about == "the incident is closed") == bool(end)


def check_alerts(alerts: Sequence[TimelineEntry], steps: Sequence[AnyStep], scenario: Scenario) -> None:
    """No more than the policy has, none in the night but urgent ones, none after the acknowledgement."""
    plain = [step for step in steps if isinstance(step, AlertStep) and not step.urgent]
    urgent = [step for step in steps if isinstance(step, AlertStep) and step.urgent]
    assert len(alerts) <= len(plain) + len(urgent)
    in_the_night = [each for each in alerts if quiet_hours_end([NIGHT], each.at)]
    assert len(in_the_night) <= len(urgent)
    if scenario.acknowledged_after is None:
        assert len(alerts) == len(plain) + len(urgent), "nobody is forgotten"
    else:
        assert all(each.at <= scenario.at + scenario.acknowledged_after for each in alerts)
