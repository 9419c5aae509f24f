"""Alerts as lines of the supervisor's log."""

from datetime import datetime
from typing import Literal

from warrener_runtime.logs import get_logger
from warrener_supervisor.escalation.alerts import AlertMessage

_log = get_logger("escalation")


class LogSink:
    """Never fails: the log is the sink that is left when all others do not answer."""

    def __init__(self, level: Literal["warning", "error"]) -> None:
        self._write = _log.error if level == "error" else _log.warning

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        self._write(
            f"Alert: {alert.title}",
            action="escalation.alert",
            alert_id=alert.alert_id,
            text=alert.text,
            fingerprint=alert.facts.get("fingerprint"),
            times=alert.facts.get("times"),
        )
