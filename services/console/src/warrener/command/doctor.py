"""`warrener doctor`: all checks, each after those that it depends on, and the checks of this machine."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import typer

from warrener.context import ResolvedEndpoints, resolve_endpoints, run
from warrener.doctor import CheckResult, CheckStatus, failed, ok, warning
from warrener.errors import CommandError, ExitCode, find_failures
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import err, out, print_json
from warrener_runtime.cgroups import NoControlGroup, divisible, own_group

_TIMEOUT, _STOP_TIMEOUT = 8.0, 0.5  # seconds; together with the start of the command less than ten
_SIGNS = {
    CheckStatus.OK: "[good]✓[/]",
    CheckStatus.WARNING: "[warning]![/]",
    CheckStatus.ERROR: "[error]✗[/]",
}


def doctor(
    *, broker: Broker = None, management: Management = None, store: Store = None, as_json: Json = False
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
    found, all_ended = await _all_checks(endpoints)
    _print(found, as_json=as_json)
    if not all_ended:  # one may be in a call that cannot be cancelled, for which the loop's end would wait
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ExitCode.FAILED)
    return found


def _print(found: list[CheckResult], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    screen = out()
    for result in found:
        screen.print(f"{_SIGNS[result.status]} [key]{result.check:<12}[/] ", end="")
        screen.print(result.message, markup=False)
        if result.do:
            screen.print(f"{'':15}[soft]→[/] ", end="")
            screen.print(result.do, markup=False)
    errors = sum(result.status is CheckStatus.ERROR for result in found)
    err().print(
        f"\n[error]{errors} of {len(found)} checks found an error[/]" if errors else "\n[good]no errors[/]"
    )


async def _all_checks(endpoints: ResolvedEndpoints) -> tuple[list[CheckResult], bool]:
    """Run all checks at once, those of one subject in their order; none may hold up those of another."""
    from warrener.doctor.broker import check_broker, check_waiting
    from warrener.doctor.store import check_store
    from warrener.installation import check_installation

    async def installation() -> AsyncIterator[CheckResult]:
        if (found := await check_installation(endpoints)) is not None:
            yield found

    groups = {
        "broker": check_broker(endpoints),
        "store": check_store(endpoints.store_url),
        "waiting jobs": check_waiting(endpoints),
        "installation": installation(),
    }
    found, all_ended = await run_bounded(groups, _TIMEOUT)
    return [*found, *check_isolation()], all_ended


async def run_bounded(
    groups: Mapping[str, AsyncIterator[CheckResult]], timeout: float
) -> tuple[list[CheckResult], bool]:
    """Run groups of checks at once; a group that has not ended by then has a finding that says so.

    Returns the findings, and True if all groups have ended.
    """
    found: dict[str, list[CheckResult]] = {name: [] for name in groups}

    async def collect(name: str, checks: AsyncIterator[CheckResult]) -> None:
        async for result in checks:
            found[name].append(result)

    tasks = {name: asyncio.create_task(collect(name, checks)) for name, checks in groups.items()}
    _, late = await asyncio.wait(tasks.values(), timeout=timeout)
    for name, task in tasks.items():
        if task in late:
            last = f" after the check of {found[name][-1].check}" if found[name] else ""
            found[name].append(
                failed(
                    name,
                    f"no answer within {timeout:g} s{last}: all that follows was not looked at",
                    "look at its log; it may be frozen, or cut off from this machine",
                )
            )
            task.cancel()
        elif (error := task.exception()) is not None:
            found[name] += _failures(name, error)
    await asyncio.wait(tasks.values(), timeout=_STOP_TIMEOUT)
    return [result for results in found.values() for result in results], not late


def _failures(name: str, error: BaseException) -> list[CheckResult]:
    """Report an error that no check handles: the findings of the others count all the same."""
    if not isinstance(error, Exception):
        raise error
    known = [error] if isinstance(error, CommandError) else find_failures(error)
    known = known or [CommandError(f"the check failed: {error!r}", do="try again; report it if it stays")]
    return [failed(name, each.sentence, each.do or "see its log") for each in known]


def check_isolation(group: Callable[[], Path] = own_group) -> Iterator[CheckResult]:
    """Report which limits and users this machine offers to the processes of attempts."""
    yield _limits(group)
    if (uid := os.geteuid()) == 0:
        yield ok("users", "handlers in processes may run as another user (`user=`)")
    else:
        yield ok("users", f"handlers run as user {uid} alone: only root may become another (`user=`)")


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
