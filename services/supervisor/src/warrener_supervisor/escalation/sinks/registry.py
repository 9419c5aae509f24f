"""The sinks of a file by their names, and how an alert is handed to several of them."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from warrener_runtime.logs import get_logger
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.model import SinkConfig
from warrener_supervisor.escalation.sinks.apprise_sink import AppriseSink
from warrener_supervisor.escalation.sinks.log import LogSink
from warrener_supervisor.escalation.sinks.port import PATIENCE, AlertSink, SinkFailed
from warrener_supervisor.escalation.sinks.webhook import WebhookSink

_log = get_logger("escalation")


class Opener(Protocol):
    """Makes a sink of what the file says of it."""

    def __call__(self, name: str, declared: SinkConfig) -> AlertSink: ...


def open_sink(name: str, declared: SinkConfig) -> AlertSink:
    """The sink itself; nothing is connected yet. Its name says nothing about that."""
    del name
    if declared.apprise is not None:
        return AppriseSink(declared.apprise)
    if declared.webhook is not None and declared.secret is not None:
        return WebhookSink(declared.webhook, declared.secret)
    return LogSink(declared.log or "error")


class SinkRegistry:
    """Hands alerts to sinks, all at once, and tells which failed."""

    def __init__(self, opener: Opener = open_sink) -> None:
        self._opener = opener

    async def send(
        self, alert: AlertMessage, names: Iterable[str], declared: Mapping[str, SinkConfig], now: datetime
    ) -> dict[str, str]:
        """Why it failed, by the names of the sinks that did not take it."""
        sink_names = sorted(set(names))
        failures = await asyncio.gather(
            *(self._one(alert, name, declared.get(name, _LOG), now) for name in sink_names)
        )
        return {name: why for name, why in zip(sink_names, failures, strict=True) if why is not None}

    async def _one(self, alert: AlertMessage, name: str, declared: SinkConfig, now: datetime) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._opener(name, declared).send(alert, now)
        except TimeoutError:
            return f"expected an answer within {PATIENCE:g} s, got none"
        except SinkFailed as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - what a plug-in raises must not stop the other sinks
            _log.exception("A sink failed in an unexpected way.", action="escalation.sink_bug")
            return f"{type(error).__name__}: {error}"
        return None


_LOG = SinkConfig(log="error")
