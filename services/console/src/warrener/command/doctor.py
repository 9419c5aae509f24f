"""`warrener doctor`."""

from collections.abc import AsyncIterator

import typer

from warrener.command_runner import run
from warrener.doctor.broker import check_broker
from warrener.doctor.check_result import CheckResult, CheckStatus
from warrener.doctor.installation import check_installation
from warrener.doctor.isolation import check_isolation
from warrener.doctor.store import check_store
from warrener.endpoints import ResolvedEndpoints, resolve_endpoints
from warrener.errors import ExitCode
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import err, out, print_json

EXAMPLES = """
warrener doctor
warrener doctor --management http://ops:secret@rabbit:15672
warrener doctor --json | jq '.[] | select(.health!="well")'
"""

_SIGNS = {CheckStatus.OK: "[good]✓[/]", CheckStatus.WARNING: "[odd]![/]", CheckStatus.FAILED: "[bad]✗[/]"}


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
    found = run(_doctor(resolve_endpoints(broker, store, management), as_json=as_json))
    if any(result.health is CheckStatus.FAILED for result in found):
        raise typer.Exit(ExitCode.FAILED)


async def _doctor(endpoints: ResolvedEndpoints, *, as_json: bool) -> list[CheckResult]:
    found: list[CheckResult] = []
    async for result in _all(endpoints):
        found.append(result)
        if not as_json:
            _show(result)
    if as_json:
        print_json(found)
    else:
        _conclude(found)
    return found


async def _all(endpoints: ResolvedEndpoints) -> AsyncIterator[CheckResult]:
    async for result in check_broker(endpoints):
        yield result
    async for result in check_store(endpoints.store_url):
        yield result
    if (found := await check_installation(endpoints)) is not None:
        yield found
    for result in check_isolation():
        yield result


def _show(result: CheckResult) -> None:
    screen = out()
    screen.print(f"{_SIGNS[result.health]} [key]{result.check:<12}[/] ", end="")
    screen.print(result.told, markup=False)
    if result.do:
        screen.print(f"{'':15}[soft]→[/] ", end="")
        screen.print(result.do, markup=False)


def _conclude(found: list[CheckResult]) -> None:
    wrong = sum(result.health is CheckStatus.FAILED for result in found)
    err().print(
        f"\n[bad]{wrong} of {len(found)} checks found something wrong[/]"
        if wrong
        else "\n[good]all is well[/]"
    )
