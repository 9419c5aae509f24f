"""What is decided about cases: pure, so that any ladder can be played through any trouble on virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.supervisor.tests.words import NOW

from warrener_store.escalations import CaseRow
from warrener_supervisor.escalation.deciding import (
    MOST_TRIES,
    Carry,
    Skip,
    Wait,
    advanced,
    decide,
    failed,
    late_step,
    pause_after,
)
from warrener_supervisor.escalation.digests import next_report
from warrener_supervisor.escalation.model import (
    WEEK,
    Alert,
    AnyStep,
    Close,
    Compensate,
    Digest,
    DigestPlan,
    Escalation,
    Ladder,
    Park,
    Period,
    Retry,
    Weekday,
)
from warrener_supervisor.escalation.quiet import quiet_until
from warrener_supervisor.escalation.rehearsal import Happening, Rehearsal, Scene

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Period.model_validate({"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"})
WEEKEND = Period.model_validate(
    {"from": "00:00", "to": "00:00", "zone": "Europe/Berlin", "days": ["sat", "sun"]}
)


def at(day: str, clock: str) -> datetime:
    """That time of that day in Berlin."""
    return datetime.combine(date.fromisoformat(day), time.fromisoformat(clock), BERLIN).astimezone(UTC)


def case(**fields: object) -> CaseRow:
    """A case that was raised now."""
    plain = CaseRow(
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


def ladder(*steps: AnyStep) -> Ladder:
    return Ladder(name="test", steps=steps)


MINUTE = timedelta(minutes=1)
ALERT, URGENT = Alert(do="alert"), Alert(do="alert", urgent=True)


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
        assert quiet_until([NIGHT, WEEKEND], at(day, clock)) == (until and at(*until))

    def test_a_night_in_which_the_clock_is_changed_ends_at_seven(self) -> None:
        assert quiet_until([NIGHT], at("2026-10-24", "23:00")) == datetime(2026, 10, 25, 6, tzinfo=UTC)
        assert quiet_until([NIGHT], at("2026-03-28", "23:00")) == datetime(2026, 3, 29, 5, tzinfo=UTC)

    def test_quiet_that_never_ends_is_none(self) -> None:
        assert quiet_until([Period.model_validate({"from": "00:00", "to": "00:00"})], NOW) is None


class TestDecisions:
    def test_a_step_is_due_in_its_time_counted_from_the_step_before(self) -> None:
        ladder_ = ladder(Park(do="park", after=MINUTE), Alert(do="alert", after=2 * MINUTE))
        new = case()
        assert decide(new, ladder_, [], NOW) == Wait(NOW + MINUTE, "park is due then")
        parked = advanced(new, ladder_, NOW + MINUTE)
        assert (parked.step, parked.wake_at) == (1, NOW + 3 * MINUTE)
        assert isinstance(decide(parked, ladder_, [], NOW + 2 * MINUTE), Wait)
        assert decide(parked, ladder_, [], NOW + 3 * MINUTE) == Carry(ladder_.steps[1])

    def test_at_the_end_of_its_ladder_it_rests(self) -> None:
        rest = advanced(case(), ladder(ALERT), NOW)
        assert (rest.step, rest.wake_at, rest.closed_at) == (1, None, None)
        assert decide(rest, ladder(ALERT), [], NOW) == Wait(None, "its ladder is at its end")

    def test_quiet_hours_hold_alerts_back_and_nothing_else(self) -> None:
        night, morning = at("2026-11-19", "23:00"), at("2026-11-20", "07:00")
        found = case(first_seen_at=night)
        assert decide(found, ladder(ALERT), [NIGHT], night) == Wait(morning, "quiet hours")
        for step in (URGENT, Retry(do="retry"), Digest(do="digest"), Close(do="close")):
            assert decide(found, ladder(step), [NIGHT], night) == Carry(step)

    def test_acknowledged_it_alerts_no_more_and_snoozed_it_does_nothing(self) -> None:
        assert isinstance(decide(case(acknowledged_by="ann"), ladder(URGENT), [], NOW), Skip)
        assert decide(case(acknowledged_by="ann"), ladder(Close(do="close")), [], NOW) == Carry(
            Close(do="close")
        )
        snoozed = case(snoozed_until=NOW + MINUTE)
        assert decide(snoozed, ladder(URGENT), [], NOW) == Wait(NOW + MINUTE, "snoozed")
        assert decide(snoozed, ladder(URGENT), [], NOW + MINUTE) == Carry(URGENT)

    def test_there_is_no_job_to_retry_where_an_agent_was_lost(self) -> None:
        assert isinstance(decide(case(kind="agent.lost"), ladder(Retry(do="retry")), [], NOW), Skip)

    def test_what_comes_late_gets_the_last_step_for_each_job_that_is_passed(self) -> None:
        steps = ladder(Retry(do="retry"), ALERT, Compensate(do="compensate", job_type="undo"), ALERT)
        assert [late_step(case(step=step), steps) for step in range(5)] == [None, 0, 0, 2, 2]

    def test_pauses_grow_and_the_ladder_goes_on_without_a_step_that_never_works(self) -> None:
        assert [pause_after(tries).total_seconds() for tries in (1, 2, 3, 7, 99)] == [5, 10, 20, 300, 300]
        row = case()
        for _ in range(MOST_TRIES):
            row = failed(row, ladder(ALERT, Close(do="close")), NOW, "no")
        assert (row.step, row.tries) == (1, 0)
        assert row.trouble == "alert given up after 12 tries: no"


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
    st.builds(Alert, do=st.just("alert"), after=AFTER, urgent=st.booleans(), title=st.none(), text=st.none()),
    st.builds(Park, do=st.just("park"), after=AFTER),
    st.builds(Digest, do=st.just("digest"), after=AFTER),
    st.builds(Retry, do=st.just("retry"), after=AFTER),
    st.builds(Compensate, do=st.just("compensate"), job_type=st.just("undo"), after=AFTER),
)


SCENES = st.builds(
    Scene,
    at=st.integers(0, 167).map(lambda hours: NOW + timedelta(hours=hours)),
    times=st.integers(1, 6),
    every=st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds)),
    acknowledged_after=st.none() | st.integers(0, 86_400).map(lambda seconds: timedelta(seconds=seconds)),
)


def _once(step: AnyStep) -> object:
    """A ladder has one retry, and one compensation by each job type."""
    return step.do if isinstance(step, Retry | Compensate) else id(step)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=6, unique_by=_once),
    end=st.sampled_from([(), (Close(do="close", after=timedelta(days=9)),)]),
    scene=SCENES,
)
def test_whatever_the_ladder_and_the_trouble_nothing_is_said_twice_or_at_the_wrong_time(
    steps: list[AnyStep], end: tuple[AnyStep, ...], scene: Scene
) -> None:
    file = Escalation.model_validate({"quiet": {"night": NIGHT}}).model_copy(
        update={"ladders": (Ladder(name="all", quiet="night", steps=(*steps, *end)),)}
    )
    told = asyncio.run(Rehearsal(file, scene).play())
    of: dict[str, list[Happening]] = {}
    for each in told:
        of.setdefault(each.what, []).append(each)
    assert [each.at for each in told] == sorted(each.at for each in told)
    check_alerts(of.get("alert", ()), steps, scene)
    kinds = {step.do for step in steps}
    for what in ("retry", "compensate"):
        assert len(of.get(what, ())) <= scene.times * (what in kinds), "each job is asked for at most once"
    if "retry" not in kinds:
        assert len(of.get("compensate", ())) == scene.times * ("compensate" in kinds), "none is forgotten"
    assert (told[-1].about == "the case is closed") == bool(end)


def check_alerts(alerts: Sequence[Happening], steps: Sequence[AnyStep], scene: Scene) -> None:
    """No more than the ladder has, none in the night but urgent ones, none after the acknowledgement."""
    plain = [step for step in steps if isinstance(step, Alert) and not step.urgent]
    urgent = [step for step in steps if isinstance(step, Alert) and step.urgent]
    assert len(alerts) <= len(plain) + len(urgent)
    in_the_night = [each for each in alerts if quiet_until([NIGHT], each.at)]
    assert len(in_the_night) <= len(urgent)
    if scene.acknowledged_after is None:
        assert len(alerts) == len(plain) + len(urgent), "nobody is forgotten"
    else:
        assert all(each.at <= scene.at + scene.acknowledged_after for each in alerts)
