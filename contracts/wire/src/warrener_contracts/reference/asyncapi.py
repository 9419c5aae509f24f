"""`docs/reference/asyncapi.json`: the wire as an AsyncAPI 3.0 document.

A channel is one kind of address: an exchange and a routing key with parameters. FastStream's own generator
cannot say that (docs/decisions/0011): it knows one message a channel, no parameters and no golden examples.
"""

import json

from warrener_contracts import topology
from warrener_contracts.events import JsonObject
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, encode
from warrener_contracts.reference.examples import golden_events
from warrener_contracts.reference.routes import PARAMETERS, ROUTES, Party, Route
from warrener_contracts.reference.schemas import shared_schemas
from warrener_contracts.registry import RELEASED, EventClass, type_of

_BINDING = "0.3.0"  # of the AsyncAPI binding for AMQP 0-9-1
_EXCHANGES = {exchange.name: exchange for exchange in topology.EXCHANGES}
_TRACE_HEADERS: JsonObject = {
    "type": "object",
    "description": "W3C trace context, the same as in the event.",
    "properties": {"traceparent": {"type": "string"}, "tracestate": {"type": "string"}},
}


def asyncapi(version: str) -> JsonObject:
    """The document of the wire at `version`."""
    return {
        "asyncapi": "3.0.0",
        "id": "urn:warrener:wire",
        "info": {
            "title": "Warrener",
            "version": version,
            "description": (
                "Background jobs over RabbitMQ. Every message is a CloudEvents 1.0 event; several "
                f"may go in one as {BATCH_TYPE}. Any AMQP 0-9-1 client can ask for a job."
            ),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": EVENT_TYPE,
        "servers": {"rabbitmq": _server()},
        "channels": {route.name: _channel(route) for route in ROUTES},
        "operations": _operations(),
        "components": {
            "messages": {type_of(kind): _message(kind) for kind in RELEASED},
            "schemas": {**shared_schemas("#/components/schemas/{model}"), "TraceHeaders": _TRACE_HEADERS},
            "parameters": {name: {"description": about} for name, about in PARAMETERS.items()},
        },
    }


def _server() -> JsonObject:
    return {
        "host": "{host}:{port}",
        "pathname": "/{vhost}",
        "protocol": "amqp",
        "protocolVersion": "0-9-1",
        "description": "RabbitMQ 3.10 or later. Exchanges and queues stand in docs/reference/topology.md.",
        "variables": {
            "host": {"default": "localhost", "description": "The broker."},
            "port": {"default": "5672", "description": "5671 where the connection is encrypted."},
            "vhost": {
                "default": "",
                "description": "The virtual host, percent-encoded; empty: the default one.",
            },
        },
    }


def _channel(route: Route) -> JsonObject:
    exchange = _EXCHANGES[route.exchange]
    channel: JsonObject = {
        "address": route.key,
        "title": f"{route.exchange} {route.key}",
        "description": route.about,
        "servers": [_to("servers", "rabbitmq")],
        "messages": {type_of(kind): _to("components", "messages", type_of(kind)) for kind in route.kinds},
        "bindings": {
            "amqp": {
                "is": "routingKey",
                "exchange": {
                    "name": exchange.name,
                    "type": exchange.kind,
                    "durable": True,
                    "autoDelete": False,
                },
                "bindingVersion": _BINDING,
            }
        },
    }
    if named := [name for name in PARAMETERS if f"{{{name}}}" in route.key]:
        channel["parameters"] = {name: _to("components", "parameters", name) for name in named}
    return channel


def _operations() -> JsonObject:
    sent = {f"{party}.send.{route.name}": _send(party, route) for route in ROUTES for party in route.senders}
    received = {
        f"{party}.receive.{route.name}": _operation("receive", party, route)
        for route in ROUTES
        for party in route.receivers
    }
    return dict(sorted((sent | received).items()))


def _send(party: Party, route: Route) -> JsonObject:
    binding = {
        "deliveryMode": 2 if route.persistent else 1,
        "mandatory": route.mandatory,
        "bindingVersion": _BINDING,
    }
    operation = {**_operation("send", party, route), "bindings": {"amqp": binding}}
    if party is Party.ANYONE:
        replies = next(route for route in ROUTES if route.name == "replies")
        operation["reply"] = {"channel": _to("channels", replies.name), "messages": _messages(replies)}
    return operation


def _operation(action: str, party: Party, route: Route) -> JsonObject:
    return {
        "action": action,
        "title": f"{party} {action}s",
        "channel": _to("channels", route.name),
        "tags": [{"name": party.value}],
        "messages": _messages(route),
    }


def _messages(route: Route) -> list[JsonObject]:
    return [_to("channels", route.name, "messages", type_of(kind)) for kind in route.kinds]


def _message(kind: EventClass) -> JsonObject:
    name, example = type_of(kind), json.loads(encode(golden_events()[type_of(kind)]))
    message: JsonObject = {
        "name": name,
        "title": name,
        "contentType": EVENT_TYPE,
        "headers": {"$ref": "#/components/schemas/TraceHeaders"},
        "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
        "bindings": {"amqp": {"messageType": name, "bindingVersion": _BINDING}},
        "examples": [{"name": "golden", "payload": example}],
    }
    if "job_id" in example["data"]:
        message["correlationId"] = {"location": "$message.payload#/data/job_id", "description": "The job."}
    return message


def _to(*path: str) -> JsonObject:
    return {"$ref": "#/" + "/".join(path)}
