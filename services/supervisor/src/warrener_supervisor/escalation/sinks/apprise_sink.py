"""Alerts by everything that Apprise speaks: mail, Slack, PagerDuty, a hundred others."""

from datetime import datetime

from warrener_runtime.settings import mask
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.sinks.port import SinkFailed


class AppriseSink:
    """One Apprise URL. It tells yes or no, and not why: that stands in the log, by Apprise itself."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, alert: AlertMessage, now: datetime) -> None:
        # Half a second of imports: whoever never alerts by it does not wait for them.
        from apprise import Apprise, NotifyType  # noqa: PLC0415

        notifier = Apprise()
        if not notifier.add(self._url):  # pyright: ignore[reportUnknownMemberType] - its own types are loose
            raise SinkFailed(f"expected a URL that Apprise knows, got {mask(self._url)}")
        kind = NotifyType.FAILURE if alert.urgent else NotifyType.WARNING
        if not await notifier.async_notify(title=alert.title, body=alert.text, notify_type=kind):
            raise SinkFailed("Apprise could not send it; see the log")
