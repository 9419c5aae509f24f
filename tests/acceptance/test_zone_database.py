"""A government changes its clock: with the new time zone database the ticks are planned anew."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.acceptance.store_queries import look
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule
from warrener_store.schedules.rows import ScheduleRow

NOON_EACH_DAY = SchedulePutData(
    name="noon", rule=CronRule(expression="0 12 * * *"), timezone="Europe/Berlin", job_type="noop"
)


def row(warren: Warren) -> ScheduleRow | None:
    """What the store knows of it."""
    return look(warren, lambda store: store.schedules(["noon"])).get("noon")


def planned_in(warren: Warren, zone: str) -> bool:
    """Whether its next tick is at noon by the clock of this zone, within a day, which may have 25 hours."""
    found = row(warren)
    if found is None or found.next_at is None:
        return False
    at = found.next_at.astimezone(ZoneInfo(zone))
    return (at.hour, at.minute) == (12, 0) and found.next_at < datetime.now(UTC) + timedelta(hours=26)


def tokyo_in_berlin(folder: Path) -> Path:
    """A database in which Berlin goes by the clock of Tokyo."""
    path = folder / "zones" / "Europe" / "Berlin"
    path.parent.mkdir(parents=True)
    path.write_bytes(files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes())
    return folder / "zones"


def test_a_scheduler_with_another_zone_database_replans(warren: Warren, tmp_path: Path) -> None:
    scheduler = warren.start("scheduler")
    with SyncClient(warren.broker_url) as client:
        client.put_schedules([NOON_EACH_DAY])
    until(lambda: planned_in(warren, "Europe/Berlin"), "noon in Berlin", within=120)
    scheduler.end()
    before = row(warren)
    warren.start("scheduler", PYTHONTZPATH=str(tokyo_in_berlin(tmp_path)))
    until(lambda: planned_in(warren, "Asia/Tokyo"), "noon by Tokyo's clock", within=120)
    after = row(warren)
    assert before is not None
    assert after is not None
    assert before.zone_version != after.zone_version
    assert (after.definition, after.put_at) == (before.definition, before.put_at), "nobody put it again"
