"""Several components as one."""

from collections.abc import Awaitable, Callable

from warrener_runtime.lifecycle.component import Component, ManagedComponent
from warrener_runtime.logs import get_logger

log = get_logger("lifecycle")


class Group(ManagedComponent):
    """Starts its components in order, drains and stops them in reverse order.

    If one cannot start, those before it are stopped. One that fails to drain or to stop does not keep the
    others from it; what they raised comes together at the end.
    """

    def __init__(self, *components: Component, name: str = "group") -> None:
        super().__init__(name)
        self._components = components
        self._begun: list[Component] = []

    async def _on_start(self) -> None:
        for component in self._components:
            self._begun.append(component)
            await component.start()

    async def _on_drain(self) -> None:
        await self._all("drain", [component.drain for component in reversed(self._begun)])

    async def _on_stop(self) -> None:
        begun, self._begun = self._begun, []
        await self._all("stop", [component.stop for component in reversed(begun)])

    async def _all(self, what: str, calls: list[Callable[[], Awaitable[None]]]) -> None:
        errors: list[Exception] = []
        for call in calls:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - raised together below, when all have had their turn
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{len(errors)} components of {self.name} did not {what}", errors)
