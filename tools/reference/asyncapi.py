"""`docs/reference/asyncapi.json`: the wire as an AsyncAPI 3.0 document.

A channel is an exchange and a routing key with parameters. FastStream's own generator cannot describe that
(docs/decisions/0004): it has one message per channel, no parameters and no golden examples.
"""

import json

from tools.reference.channels import EventChannel, channels
from tools.reference.golden import golden_events
from tools.reference.schemas import shared_schemas

from warrener_contracts import topology
from warrener_contracts.events import JsonObject
from warrener_contracts.events.envelope import REPLIES, Party
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, encode
from warrener_contracts.registry import RELEASED, EventClass, type_of

_BINDING = "0.3.0"  # of the AsyncAPI binding for AMQP 0-9-1
_EXCHANGES = {exchange.name: exchange for exchange in topology.EXCHANGES}
_TRACE_HEADERS: JsonObject = {
    "type": "object",
    "description": "W3C trace context, the same as in the event.",
    "properties": {name: {"type": "string"} for name in ("traceparent", "tracestate", "baggage")},
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
                f"may go in one as {BATCH_TYPE}. Any AMQP 0-9-1 client can request a job."
            ),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": EVENT_TYPE,
        "servers": {"rabbitmq": _server()},
        "channels": {channel.name: _channel(channel) for channel in channels()},
        "operations": _operations(),
        "components": {
            "messages": {type_of(kind): _message(kind) for kind in RELEASED},
            "schemas": {**shared_schemas("#/components/schemas/{model}"), "TraceHeaders": _TRACE_HEADERS},
        },
    }


def _server() -> JsonObject:
    return {
        "host": "{host}:{port}",
        "pathname": "/{vhost}",
        "protocol": "amqp",
        "protocolVersion": "0-9-1",
        "description": "RabbitMQ 3.10 or later. Exchanges and queues: docs/reference/topology.md.",
        "variables": {
            "host": {"default": "localhost", "description": "The broker."},
            "port": {"default": "5672", "description": "5671 for encrypted connections."},
            "vhost": {
                "default": "",
                "description": "The virtual host, percent-encoded; empty: the default one.",
            },
        },
    }


def _channel(channel: EventChannel) -> JsonObject:
    route = channel.route
    exchange = _EXCHANGES[route.exchange]
    described: JsonObject = {
        "address": route.key,
        "title": f"{route.exchange} {route.key}",
        "description": route.about,
        "servers": [_to("servers", "rabbitmq")],
        "messages": {type_of(kind): _to("components", "messages", type_of(kind)) for kind in channel.kinds},
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
    if parameters := channel.parameters:
        described["parameters"] = {name: {"description": text} for name, text in parameters.items()}
    return described


def _operations() -> JsonObject:
    sent = {
        f"{party}.send.{channel.name}": _send(party, channel)
        for channel in channels()
        for party in channel.route.senders
    }
    received = {
        f"{party}.receive.{channel.name}": _operation("receive", party, channel)
        for channel in channels()
        for party in channel.route.receivers
    }
    return dict(sorted((sent | received).items()))


def _send(party: Party, channel: EventChannel) -> JsonObject:
    binding = {
        "deliveryMode": 2 if channel.route.persistent else 1,
        "mandatory": channel.route.mandatory,
        "bindingVersion": _BINDING,
    }
    operation = {**_operation("send", party, channel), "bindings": {"amqp": binding}}
    if party is Party.ANYONE:
        replies = next(channel for channel in channels() if channel.route is REPLIES)
        operation["reply"] = {"channel": _to("channels", replies.name), "messages": _messages(replies)}
    return operation


def _operation(action: str, party: Party, channel: EventChannel) -> JsonObject:
    return {
        "action": action,
        "title": f"{party} {action}s",
        "channel": _to("channels", channel.name),
        "tags": [{"name": party.value}],
        "messages": _messages(channel),
    }


def _messages(channel: EventChannel) -> list[JsonObject]:
    return [_to("channels", channel.name, "messages", type_of(kind)) for kind in channel.kinds]


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
