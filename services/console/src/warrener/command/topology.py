"""`warrener topology`."""

from typing import Annotated

import typer

from warrener.broker_inspector import open_inspector
from warrener.command_runner import connect_client, run
from warrener.doctor.check_result import CheckStatus
from warrener.endpoints import ResolvedEndpoints, resolve_endpoints, resolve_namespace
from warrener.errors import ExitCode
from warrener.installation import adopt as adopt_namespace
from warrener.management_api import resolve_management_api
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import err, out, print_json
from warrener.render.tables import table
from warrener.topology_diff import TopologyDiff, TopologyDifference, compare_topology
from warrener_contracts.topology import TOPOLOGY
from warrener_runtime.bus import TopologySpec
from warrener_runtime.bus.namespace import NameMapper

EXAMPLES = """
warrener topology
warrener topology --declare
warrener topology --check
warrener topology --check --management http://ops:secret@rabbit:15672
warrener topology --adopt --store postgresql://warrener@localhost/restored
"""


def topology(
    *,
    declare: Annotated[bool, typer.Option("--declare", help="Make on the broker what is missing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the broker; exit code 1 if it differs.")
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Have the broker's namespace belong to the store, in place of another store."
        ),
    ] = False,
    broker: Broker = None,
    store: Store = None,
    management: Management = None,
    as_json: Json = False,
) -> None:
    """Show the exchanges and queues, make or compare them.

    --check compares the arguments of exchanges and queues. Bindings can be compared where the broker's
    management API answers; where it does not, that is said, and is no fault. --adopt is for a store that was
    restored or moved: services of any other store do not start on this namespace from then on.
    """
    if declare + check + adopt > 1:
        raise typer.BadParameter(
            "expected one of --declare, --check and --adopt, got more; do one after the other"
        )
    if declare:
        run(_declare(broker, as_json=as_json))
    elif adopt:
        run(_adopt(resolve_endpoints(broker, store), as_json=as_json))
    elif check:
        found = run(_check(resolve_endpoints(broker, management=management), as_json=as_json))
        if any(each.health is CheckStatus.FAILED for each in found):
            raise typer.Exit(ExitCode.FAILED)
    else:
        _show(NameMapper(resolve_namespace()).topology(TOPOLOGY), as_json=as_json)


def _show(topology: TopologySpec, *, as_json: bool) -> None:
    if as_json:
        print_json(topology)
        return
    exchanges = table("exchange", "kind", "what nobody is bound for")
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


async def _declare(broker: str | None, *, as_json: bool) -> None:
    async with connect_client(resolve_endpoints(broker)):
        pass  # a client declares the topology before anything else
    if as_json:
        print_json({"declared": [queue.name for queue in TOPOLOGY.queues]})
    else:
        err().print("[good]✓[/] the broker has every exchange, queue and binding")


async def _adopt(endpoints: ResolvedEndpoints, *, as_json: bool) -> None:
    installation_id = await adopt_namespace(endpoints)
    if as_json:
        print_json({"namespace": endpoints.namespace, "installation_id": installation_id})
    else:
        err().print(
            f"[good]✓[/] namespace {endpoints.namespace} belongs to installation {installation_id.hex}"
        )


async def _check(endpoints: ResolvedEndpoints, *, as_json: bool) -> list[TopologyDifference]:
    management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
    async with open_inspector(endpoints.broker_url, endpoints.namespace) as inspector:
        found = await compare_topology(inspector, management)
    if as_json:
        print_json(found.all)
    else:
        _print_diff(found)
    return found.all


def _print_diff(found: TopologyDiff) -> None:
    if found.all:
        shown = table("what", "differs")
        for each in found.all:
            shown.add_row(each.what, each.how)
        out().print(shown)
    for advice in dict.fromkeys(each.do for each in found.all if each.do):
        err().print("  [soft]→[/] ", end="")
        err().print(advice, markup=False)
    if not any(each.health is CheckStatus.FAILED for each in found.all):
        what = "has what this version needs" if found.compared else "has the exchanges and queues it needs"
        err().print(f"[good]✓[/] the broker {what}")
