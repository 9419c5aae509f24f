"""Records that are made for every job: frozen for the type checkers alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as frozen_dataclass
else:
    from dataclasses import dataclass

    def frozen_dataclass(*, frozen: bool, **options: Any) -> object:
        """As `dataclass`, but who keeps it frozen are the type checkers: with a guard at runtime a record of
        many fields takes three times as long to make."""
        assert frozen
        return dataclass(**options)


__all__ = ["frozen_dataclass"]
