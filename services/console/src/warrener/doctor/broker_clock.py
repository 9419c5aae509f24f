"""This machine's clock against the broker's. Pure."""

from datetime import timedelta

from warrener.broker_time import BrokerTime
from warrener.doctor.check_result import CheckResult, failed, ok, warning
from warrener.render.times import span

CHECK = "broker clock"

_SECOND = timedelta(seconds=1)  # the broker tells no fractions
_APART = timedelta(seconds=2)
_NTP = "let a time service (NTP) set both clocks"


def broker_clock(found: BrokerTime | str) -> CheckResult:
    """How far apart the clocks are, as far as can be known: the broker's moment lies within its second, and
    by ours between the asking and the answer."""
    if isinstance(found, str):
        return warning(CHECK, f"not compared: {found}", "see the finding on permissions, or try again")
    least, most = found.before - (found.reported_at + _SECOND), found.after - found.reported_at
    if least > _APART:
        return failed(CHECK, f"this machine is at least {span(least)} ahead of the broker", _NTP)
    if most < -_APART:
        return failed(CHECK, f"this machine is at least {span(most)} behind the broker", _NTP)
    apart = max(abs(least), abs(most)).total_seconds()
    return ok(CHECK, f"this machine and the broker are at most {apart:.1f} s apart")
