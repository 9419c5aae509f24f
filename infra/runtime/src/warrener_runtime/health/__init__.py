"""Whether a service lives and can work, asked over HTTP."""

from warrener_runtime.health.report import Readiness, ReadinessReport
from warrener_runtime.health.server import HealthServer

__all__ = ["HealthServer", "Readiness", "ReadinessReport"]
