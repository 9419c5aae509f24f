"""The port by which an alert leaves."""

from datetime import datetime
from typing import Protocol

from warrener_supervisor.escalation.alerts import AlertMessage

PATIENCE = 10.0
"""Seconds that a sink may take."""


class SinkFailed(Exception):
    """The alert was not taken, or nobody knows whether it was; it is sent again under the same id."""


class AlertSink(Protocol):
    """Takes alerts, one at a time, at least once: the id of a repeated one is the same."""

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        """Return once it was taken. Raises SinkFailed."""
        ...
