"""A year of a thousand schedules with every service in one process (point 4 of what scheduling must show)."""

from time import process_time

import pytest
from tests.simulation.year import Year
from tests.simulation.year_plan import BEGIN, END, Planned, count, the_thousand

from warrener_contracts.events import TickStatus
from warrener_contracts.identity import tick_job_id
from warrener_contracts.state_machine import JobState


@pytest.mark.timeout(900)
async def test_4_a_year_of_a_thousand_schedules_has_every_tick_and_every_job_once() -> None:
    planned = the_thousand()
    began = process_time()
    async with Year(BEGIN) as year:
        await year.put([one.definition for one in planned])
        await year.live_before(END)
        lived = process_time() - began
        for one in planned:
            await check_ledger(year, one)
        jobs = {tick_job_id(one.definition.name, moment) for one in planned for moment in one.times}
        rows = await year.store.jobs_by_id(jobs)
        assert rows.keys() == jobs, "each tick has its job"
        assert {row.state for row in rows.values()} == {JobState.SUCCEEDED}
        assert year.runs == dict.fromkeys(map(str, jobs), 1), "and each ran once"
        assert await year.store.escalations.incidents() == [], "nobody was alarmed"
    print(
        f"a year of {len(planned)} schedules: {count(planned)} ticks and as many jobs, "
        f"in {lived:.1f} s of a processor"
    )


async def check_ledger(year: Year, planned: Planned) -> None:
    found = await year.store.ticks_of(planned.definition.name, 100_000)
    ticks = [tick for tick in found if tick.nominal_at < END]  # that of the end is decided a little ahead
    assert {tick.nominal_at for tick in ticks} == planned.times, planned.definition
    assert len(ticks) == len(planned.times)
    assert {tick.status for tick in ticks} <= {TickStatus.FIRED}, planned.definition
