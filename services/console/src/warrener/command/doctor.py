"""`warrener doctor`."""

from collections.abc import AsyncIterator

import typer

from warrener.doctor.broker import check_broker
from warrener.doctor.finding import Finding, Health
from warrener.doctor.installation import check_installation
from warrener.doctor.isolation import check_isolation
from warrener.doctor.store import check_store
from warrener.exits import Exit
from warrener.options import Broker, Json, Management, Store
from warrener.places import Places, find_places
from warrener.running import run
from warrener.shown.screen import err, out, print_json

EXAMPLES = """
warrener doctor
warrener doctor --management http://ops:secret@rabbit:15672
warrener doctor --json | jq '.[] | select(.health!="well")'
"""

_SIGNS = {Health.WELL: "[good]✓[/]", Health.ODD: "[odd]![/]", Health.WRONG: "[bad]✗[/]"}


def doctor(
    *,
    broker: Broker = None,
    management: Management = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Try everything that may be wrong.

    Broker, topology, bindings, permissions, store, clocks, services, agents, limits of handlers. Each
    finding comes with what to do. The exit code is 1 if something is wrong (✗); what is odd (!) is worth
    knowing, and no fault by itself.
    """
    found = run(_doctor(find_places(broker, store, management), as_json=as_json))
    if any(finding.health is Health.WRONG for finding in found):
        raise typer.Exit(Exit.FAILED)


async def _doctor(places: Places, *, as_json: bool) -> list[Finding]:
    found: list[Finding] = []
    async for finding in _all(places):
        found.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        print_json(found)
    else:
        _conclude(found)
    return found


async def _all(places: Places) -> AsyncIterator[Finding]:
    async for finding in check_broker(places):
        yield finding
    async for finding in check_store(places.store_url):
        yield finding
    if (found := await check_installation(places)) is not None:
        yield found
    for finding in check_isolation():
        yield finding


def _show(finding: Finding) -> None:
    screen = out()
    screen.print(f"{_SIGNS[finding.health]} [key]{finding.check:<12}[/] ", end="")
    screen.print(finding.told, markup=False)
    if finding.do:
        screen.print(f"{'':15}[soft]→[/] ", end="")
        screen.print(finding.do, markup=False)


def _conclude(found: list[Finding]) -> None:
    wrong = sum(finding.health is Health.WRONG for finding in found)
    err().print(
        f"\n[bad]{wrong} of {len(found)} checks found something wrong[/]"
        if wrong
        else "\n[good]all is well[/]"
    )
