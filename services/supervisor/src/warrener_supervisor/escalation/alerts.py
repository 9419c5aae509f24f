"""What is said to people, ready for any sink. Pure."""

from dataclasses import dataclass
from uuid import UUID, uuid5

from warrener_contracts.events import JsonObject
from warrener_store.escalations import CaseRow
from warrener_supervisor.escalation.facts import error_of, facts_of_case
from warrener_supervisor.escalation.model import AlertStep
from warrener_supervisor.escalation.templating import filled_text

# uuid5(NAMESPACE_DNS, "warrener.alerts"); fixed for ever: a repeated alert keeps its id.
_ALERTS = UUID("0317090c-e5aa-55d3-890e-ae64b898928e")

_TITLE = "{kind}: {about}, {times} times"
_TEXT = """{said}
first {first_seen}, last {last_seen}
warrener escalation ack {fingerprint}"""


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """One word to people. Told twice (a supervisor died before it could note that it was told), it has the
    same id both times."""

    alert_id: str
    title: str
    text: str
    urgent: bool
    facts: JsonObject


def render_alert(case: CaseRow, step: AlertStep) -> AlertMessage:
    """What this step says about this case."""
    facts = facts_of_case(case)
    facts |= {"about": case.job_type or case.subject, "said": _what_happened(case)}
    return AlertMessage(
        alert_id=alert_id(case.fingerprint, case.round, case.step),
        title=filled_text(step.title or _TITLE, facts),
        text=filled_text(step.text or _TEXT, facts),
        urgent=step.urgent,
        facts={name: value for name, value in facts.items() if name not in ("about", "said")},
    )


def alert_id(fingerprint: str, turn: int, what: int | str) -> str:
    """The same for the same alert, whoever sends it."""
    return str(uuid5(_ALERTS, f"{fingerprint}\n{turn}\n{what}"))


def _what_happened(case: CaseRow) -> str:
    error = error_of(case)
    if error.get("type"):
        return f"{error['type']}: {error.get('message', '')}"
    return str(case.sample.get("text", case.subject))
