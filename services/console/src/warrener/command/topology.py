"""`warrener topology`: shows, declares, compares and adopts the exchanges and queues on the broker."""

from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import ResolvedEndpoints, connect_client, resolve_endpoints, resolve_namespace, run
from warrener.doctor import CheckStatus
from warrener.errors import ExitCode
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import err, out, print_json, table
from warrener_contracts.topology import TOPOLOGY

if TYPE_CHECKING:
    from warrener.doctor.topology import TopologyDiff, TopologyDifference
    from warrener_runtime.bus.namespace import NameMapper


def topology(
    *,
    declare: Annotated[
        bool, typer.Option("--declare", help="Declare the missing exchanges, queues and bindings.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the broker; exit code 1 if it differs.")
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Give the broker's namespace to the store, in place of another store."),
    ] = False,
    broker: Broker = None,
    store: Store = None,
    management: Management = None,
    as_json: Json = False,
) -> None:
    """Show the exchanges and queues, declare them, or compare them with the broker.

    --check compares the arguments of exchanges and queues. If the broker's management API answers, it also
    compares bindings, and the replicas of queues with the nodes of the cluster; an API that does not answer
    is a warning. --adopt is for a restored or moved store: services of any other store no longer start on
    this namespace.

    $ warrener topology
    $ warrener topology --declare
    $ warrener topology --check
    $ warrener topology --check --management http://ops:secret@rabbit:15672
    $ warrener topology --adopt --store postgresql://warrener@localhost/restored
    """
    from warrener_runtime.bus.namespace import NameMapper

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
        if any(each.status is CheckStatus.ERROR for each in found):
            raise typer.Exit(ExitCode.FAILED)
    else:
        _print_topology(NameMapper(resolve_namespace()), as_json=as_json)


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


async def _declare(broker: str | None, *, as_json: bool) -> None:
    async with connect_client(resolve_endpoints(broker)) as client:
        await client.declare_topology()
    if as_json:
        print_json({"declared": [queue.name for queue in TOPOLOGY.queues]})
    else:
        err().print("[good]✓[/] the broker has every exchange, queue and binding")


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
