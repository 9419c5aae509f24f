"""`warrener doctor`: all checks, each after those that it depends on, and the checks of this machine."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import typer

from warrener.context import ResolvedEndpoints, resolve_endpoints, run
from warrener.doctor import CheckResult, CheckStatus, ok, warning
from warrener.errors import ExitCode
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import err, out, print_json
from warrener_runtime.cgroups import NoControlGroup, divisible, own_group

_SIGNS = {
    CheckStatus.OK: "[good]✓[/]",
    CheckStatus.WARNING: "[warning]![/]",
    CheckStatus.ERROR: "[error]✗[/]",
}


def doctor(
    *,
    broker: Broker = None,
    management: Management = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Check broker, topology, bindings, permissions, store, clocks, services, agents and limits of handlers.

    Each finding comes with what to do. Exit code 1 if one is an error (✗); a warning (!) is worth knowing,
    and no fault by itself.

    $ warrener doctor
    $ warrener doctor --management http://ops:secret@rabbit:15672
    $ warrener doctor --json | jq '.[] | select(.status!="ok")'
    """
    found = run(_check(resolve_endpoints(broker, store, management), as_json=as_json))
    if any(result.status is CheckStatus.ERROR for result in found):
        raise typer.Exit(ExitCode.FAILED)


async def _check(endpoints: ResolvedEndpoints, *, as_json: bool) -> list[CheckResult]:
    found: list[CheckResult] = []
    async for result in _all_checks(endpoints):
        found.append(result)
        if not as_json:
            _print_result(result)
    if as_json:
        print_json(found)
        return found
    errors = sum(result.status is CheckStatus.ERROR for result in found)
    err().print(
        f"\n[error]{errors} of {len(found)} checks found an error[/]" if errors else "\n[good]no errors[/]"
    )
    return found


async def _all_checks(endpoints: ResolvedEndpoints) -> AsyncIterator[CheckResult]:
    from warrener.doctor.broker import check_broker
    from warrener.doctor.store import check_store
    from warrener.doctor.waiting import check_waiting
    from warrener.installation import check_installation

    async for result in check_broker(endpoints):
        yield result
    async for result in check_store(endpoints.store_url):
        yield result
    async for result in check_waiting(endpoints):
        yield result
    if (found := await check_installation(endpoints)) is not None:
        yield found
    for result in check_isolation():
        yield result


def check_isolation(group: Callable[[], Path] = own_group) -> Iterator[CheckResult]:
    """Report which limits and users this machine offers to the processes of attempts."""
    yield _limits(group)
    yield _users(os.geteuid())


def _limits(group: Callable[[], Path]) -> CheckResult:
    if sys.platform != "linux":
        return warning(
            "limits",
            "rlimits of single processes alone: the total of an attempt's processes has no limit",
            "run agents whose handlers need limits on Linux",
        )
    try:
        found = group()
        divisible(found)
    except NoControlGroup as error:
        return ok("limits", f"rlimits, and the agent's checks of its processes; no control group: {error}")
    return ok("limits", f"control group {found}, and rlimits")


def _users(uid: int) -> CheckResult:
    if uid == 0:
        return ok("users", "handlers in processes may run as another user (`user=`)")
    return ok("users", f"handlers run as user {uid} alone: only root may become another (`user=`)")


def _print_result(result: CheckResult) -> None:
    screen = out()
    screen.print(f"{_SIGNS[result.status]} [key]{result.check:<12}[/] ", end="")
    screen.print(result.message, markup=False)
    if result.do:
        screen.print(f"{'':15}[soft]→[/] ", end="")
        screen.print(result.do, markup=False)
