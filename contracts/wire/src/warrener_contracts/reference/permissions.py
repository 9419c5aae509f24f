"""Topic permissions of RabbitMQ: the routing keys that agents and clients may publish.

The scheduler and the supervisor requeue and republish messages of every exchange, so they stay unrestricted.
"""

import re
from collections.abc import Mapping

from warrener_contracts import topology
from warrener_contracts.events.envelope import AGENT, Party
from warrener_contracts.fields import RESERVED_WORDS
from warrener_contracts.reference.channels import channels

_PARKED_KEY = r"parked\..+"
_PULSE_KEY = r"pulse\..+"
_NO_KEY = "^$"
# A key that begins with a job type must not look like a key of Warrener's own.
_ANY_JOB_TYPE = rf"(?!({'|'.join(sorted(RESERVED_WORDS))})(\.|$)).+"


def publish_permissions(party: Party) -> Mapping[str, str]:
    """For each topic exchange the regular expression of the routing keys that `party` may publish."""
    keys: dict[str, set[str]] = {name: set() for name in _topic_exchanges()}
    for channel in channels():
        if party in channel.route.senders:
            keys[channel.route.exchange].add(_pattern(channel.route.key))
    if party is AGENT:
        keys[topology.DEAD].add(_PARKED_KEY)  # agents park the dispatches that they cannot read
        keys[topology.CONTROL].add(_PULSE_KEY)  # the pulses by which an agent notices that it receives
    return {name: f"^({'|'.join(sorted(found))})$" if found else _NO_KEY for name, found in keys.items()}


def permission_commands(party: Party, user: str) -> list[str]:
    """The commands that restrict a user of the broker to the messages of `party`."""
    return [
        f"rabbitmqctl set_topic_permissions -p / {user} {exchange} '{keys}' '.*'"
        for exchange, keys in publish_permissions(party).items()
    ]


def _topic_exchanges() -> list[str]:
    return [exchange.name for exchange in topology.EXCHANGES if exchange.kind == "topic"]


def _pattern(key: str) -> str:
    if key.startswith("{job_type}"):
        return _ANY_JOB_TYPE
    return re.sub(r"\\{\w+\\}", ".+", re.escape(key))
