"""Replicas of queues on the nodes of the broker, in the format of Prometheus."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from warrener.doctor.management_api import BindingsUnavailable, resolve_management_api
from warrener.doctor.topology import lacks_replicas, read_replicas
from warrener.web.api import ConsoleOfApp
from warrener_runtime.bus.namespace import NameMapper

router = APIRouter(tags=["queues"])


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(console: ConsoleOfApp) -> str:
    """Gauges of the cluster and its queues. All other metrics are served by the services."""
    endpoints = console.endpoints
    management = resolve_management_api(endpoints.broker_url, endpoints.management_url)
    gauges = {"warrener_replicas_known": 0}  # the management API does not answer
    try:
        nodes, queues = await read_replicas(management, NameMapper(endpoints.namespace))
    except BindingsUnavailable:
        pass
    else:
        gauges = {
            "warrener_replicas_known": 1,
            "warrener_broker_nodes": len(nodes),
            "warrener_broker_nodes_down": sum(not node.running for node in nodes),
            "warrener_queues_lacking_replicas": sum(lacks_replicas(one, len(nodes)) for one in queues),
        }
    return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in gauges.items())
