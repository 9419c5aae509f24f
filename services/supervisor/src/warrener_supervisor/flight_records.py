"""What was seen of an attempt before it was stopped for somebody. Pure."""

from warrener_contracts.events import AttemptCancelledData, ErrorInfo, ErrorKind


def flight_record_error(data: AttemptCancelledData) -> ErrorInfo | None:
    """What its row keeps: the flight record, where there is one."""
    if data.flight_record is None:
        return None
    return ErrorInfo(
        kind=ErrorKind.ERROR,
        type="cancelled",
        message=data.reason,
        retryable=False,
        flight_record=data.flight_record,
    )
