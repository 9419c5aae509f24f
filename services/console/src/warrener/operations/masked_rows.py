"""Rows of the store as a console shows them: without the secrets that users and handlers wrote. Pure."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warrener.operations.masking import Masker
from warrener_contracts.json_safety import is_array, is_object
from warrener_runtime.secrets import HIDDEN

if TYPE_CHECKING:  # a list of one kind of row needs no other kind
    from warrener.explanations.explanation import Explanation
    from warrener_contracts.events import ErrorInfo
    from warrener_store.dead_letters.rows import DeadLetter
    from warrener_store.jobs.rows import AttemptRow, JobRow


def mask_error(masker: Masker, error: "ErrorInfo | None") -> "ErrorInfo | None":
    """The error with its message, stack and flight record masked."""
    if error is None:
        return None
    changes: dict[str, Any] = {"message": masker.text(error.message)}
    if error.stack:
        changes["stack"] = masker.text(error.stack)
    if (record := error.flight_record) is not None:
        texts = {
            name: masker.text(text)
            for name in ("stacks", "log", "progress_note")
            if (text := getattr(record, name))
        }
        changes["flight_record"] = record.model_copy(update=texts)
    return error.model_copy(update=changes)


def mask_job(masker: Masker, row: "JobRow") -> "JobRow":
    """The job with its documents and texts masked."""
    return replace(
        row,
        arguments=masker.value(row.arguments),
        result=masker.value(row.result),
        error=mask_error(masker, row.error),
        progress_note=None if row.progress_note is None else masker.text(row.progress_note),
        cancel_reason=None if row.cancel_reason is None else masker.text(row.cancel_reason),
    )


def mask_attempt(masker: Masker, attempt: "AttemptRow") -> "AttemptRow":
    """The attempt with its error masked."""
    return replace(attempt, error=mask_error(masker, attempt.error), verdict=masker.text(attempt.verdict))


def mask_dead_letter(masker: Masker, dead_letter: "DeadLetter") -> "DeadLetter":
    """The dead letter with its error masked."""
    return replace(dead_letter, error=mask_error(masker, dead_letter.error))


def mask_explanation(masker: Masker, explanation: "Explanation") -> "Explanation":
    """The explanation with its sentences masked: they quote errors."""
    return replace(
        explanation,
        sentence=masker.text(explanation.sentence),
        detail=masker.text(explanation.detail),
        next=masker.text(explanation.next),
        steps=tuple(replace(step, detail=masker.text(step.detail)) for step in explanation.steps),
        notes=tuple(map(masker.text, explanation.notes)),
    )


def restore_hidden(given: object, original: object) -> Any:
    """Put the values of the original where the given document has a hidden one at the same place."""
    if given == HIDDEN:
        return original
    if is_object(given) and is_object(original):
        return {name: restore_hidden(value, original.get(name, value)) for name, value in given.items()}
    if is_array(given) and is_array(original) and len(given) == len(original):
        return [restore_hidden(item, other) for item, other in zip(given, original, strict=True)]
    return given
