"""`warrener doctor` and `topology`: all checks of a system, and the exchanges and queues on the broker."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warrener.context import ResolvedEndpoints, command_settings, resolve_endpoints, run
from warrener.doctor import CheckResult, CheckStatus, failed, ok, warning
from warrener.errors import CommandError, ExitCode, find_failures
from warrener.options import Broker, Json, Management, Store, flag, option
from warrener.render.screen import err, out, print_json, table
from warrener_contracts.topology import TOPOLOGY
from warrener_runtime.cgroups import NoControlGroup, divisible, own_group

if TYPE_CHECKING:
    from warrener.doctor.topology import TopologyDiff, TopologyDifference
    from warrener_contracts.permissions import Holder
    from warrener_runtime.bus.namespace import NameMapper

_ANY_USER = "user"  # of the broker's URL, in its place
_TIMEOUT, _STOP_TIMEOUT = 8.0, 0.5  # seconds; together with the start of the command less than ten
_SIGNS = {
    CheckStatus.OK: "[good]✓[/]",
    CheckStatus.WARNING: "[warning]![/]",
    CheckStatus.ERROR: "[error]✗[/]",
}


def doctor(
    *,
    role: str | None = option(
        "Try what the user of the broker's URL may do beyond this role, and what it lacks; harms nothing.",
        "ROLE",
        names="--as",
    ),
    queue: list[str] | None = option("Queue that an agent serves, with --as; give one for each.", "NAME"),
    job_type: list[str] | None = option("Job types of the role, with --as.", "PATTERN"),
    child_type: list[str] | None = option("Job types that handlers request, with --as agent.", "PATTERN"),
    broker: Broker = None,
    management: Management = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Check broker, topology, bindings, permissions, store, clocks, services, agents and limits of handlers.

    Each finding comes with what to do. Exit code 1 if one is an error (✗); a warning (!) is worth knowing,
    and no fault by itself. --as ROLE tries the permissions of one user instead; with --store, those of the
    role scheduler, supervisor or console in PostgreSQL too.

    $ warrener doctor
    $ warrener doctor --management http://ops:secret@rabbit:15672
    $ warrener doctor --json | jq '.[] | select(.status!="ok")'
    $ warrener doctor --as asker --job-type 'billing.*' --broker amqp://billing:secret@rabbit/
    """
    from warrener.command.roles import holder_of

    if role is not None:
        holder = holder_of(role, _ANY_USER, queue, job_type, child_type)
        found = run(_check_role(resolve_endpoints(broker, store), holder, store))
        _print(found, as_json=as_json)
    else:
        found = run(_check_all(resolve_endpoints(broker, store, management), as_json=as_json))
    if any(result.status is CheckStatus.ERROR for result in found):
        raise typer.Exit(ExitCode.FAILED)


async def _check_role(endpoints: ResolvedEndpoints, wanted: "Holder", store: str | None) -> list[CheckResult]:
    from warrener.doctor.roles import check_role, check_store_role

    stored = [] if store is None else [await check_store_role(store, wanted.role)]
    return [*stored, *[result async for result in check_role(endpoints, wanted)]]


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


async def _check_all(endpoints: ResolvedEndpoints, *, as_json: bool) -> list[CheckResult]:
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
    if not (endpoints.from_up or endpoints.store_url.startswith("sqlite")):
        from warrener.doctor.roles import check_store_user

        groups["store user"] = check_store_user(endpoints.store_url)
    found, all_ended = await run_bounded(groups, _TIMEOUT)
    found += check_isolation()
    _print(found, as_json=as_json)
    if not all_ended:  # one may be in a call that cannot be cancelled, for which the loop's end would wait
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ExitCode.FAILED)
    return found


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


def topology(
    ctx: typer.Context,
    *,
    check: bool = flag("--check", "Compare with the broker; exit code 1 if it differs."),
    adopt: bool = flag("--adopt", "Give the broker's namespace to the store, in place of another store."),
    broker: Broker = None,
    store: Store = None,
    management: Management = None,
    as_json: Json = False,
) -> None:
    """Show the exchanges and queues, make them, compare them with the broker; print permissions of roles.

    --check compares the arguments of exchanges and queues. If the broker's management API answers, it also
    compares bindings, and the replicas of queues with the nodes of the cluster; an API that does not answer
    is a warning. --adopt is for a restored or moved store: services of any other store no longer start on
    this namespace.

    $ warrener topology
    $ warrener topology apply
    $ warrener topology --check
    $ warrener topology --check --management http://ops:secret@rabbit:15672
    $ warrener topology --adopt --store postgresql://warrener@localhost/restored
    $ warrener topology permissions asker --user billing
    """
    if ctx.invoked_subcommand is not None:
        return
    from warrener_runtime.bus.namespace import NameMapper

    if check and adopt:
        raise typer.BadParameter("expected --check or --adopt, got both; do one after the other")
    if adopt:
        run(_adopt(resolve_endpoints(broker, store), as_json=as_json))
    elif check:
        found = run(_check(resolve_endpoints(broker, management=management), as_json=as_json))
        if any(each.status is CheckStatus.ERROR for each in found):
            raise typer.Exit(ExitCode.FAILED)
    else:
        _print_topology(NameMapper(command_settings().namespace), as_json=as_json)


def _print_topology(names: "NameMapper", *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "exchanges": [names.exchange(one)._asdict() for one in TOPOLOGY.exchanges],
                "queues": [
                    names.queue(one)._asdict()
                    | {"bindings": [names.binding(each)._asdict() for each in one.bindings]}
                    for one in TOPOLOGY.queues
                ],
            }
        )
        return
    topology = names.topology(TOPOLOGY)
    exchanges = table("exchange", "kind", "unroutable to")
    for exchange in topology.exchanges:
        exchanges.add_row(exchange.name, exchange.kind, exchange.alternate or "")
    queues = table("queue", "kind", "bound to")
    for queue in topology.queues:
        bound = "\n".join(f"{binding.exchange}  {binding.key}" for binding in queue.bindings)
        queues.add_row(queue.name, str(queue.arguments.get("x-queue-type", "")), bound)
    screen = out()
    screen.print(exchanges)
    screen.print()
    screen.print(queues)
    err().print("\n[soft]and warrener.queue.NAME for each queue that a job type names[/]")


async def _adopt(endpoints: ResolvedEndpoints, *, as_json: bool) -> None:
    from warrener.installation import adopt as adopt_namespace

    installation_id = await adopt_namespace(endpoints)
    if as_json:
        print_json({"namespace": endpoints.namespace, "installation_id": installation_id})
    else:
        err().print(
            f"[good]✓[/] namespace {endpoints.namespace} belongs to installation {installation_id.hex}"
        )


async def _check(endpoints: ResolvedEndpoints, *, as_json: bool) -> "list[TopologyDifference]":
    from warrener.doctor.inspector import open_inspector
    from warrener.doctor.management_api import resolve_management_api
    from warrener.doctor.topology import compare_topology, with_replicas

    management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
    async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
        found = await compare_topology(inspector, management)
        if found.compared:
            found = await with_replicas(found, management, inspector.names)
    if as_json:
        print_json(found.all)
    else:
        _print_diff(found)
    return found.all


def _print_diff(found: "TopologyDiff") -> None:
    if found.all:
        shown = table("what", "differs")
        for each in found.all:
            shown.add_row(each.what, each.how)
        out().print(shown)
    for advice in dict.fromkeys(each.do for each in found.all if each.do):
        err().print("  [soft]→[/] ", end="")
        err().print(advice, markup=False)
    if not any(each.status is CheckStatus.ERROR for each in found.all):
        what = "has what this version needs" if found.compared else "has the exchanges and queues it needs"
        err().print(f"[good]✓[/] the broker {what}")
