"""What is wrong with a store, and what to do about it. Pure."""

from collections.abc import Iterator

from warrener.errors import CommandError, ExitCode
from warrener_runtime.settings import mask
from warrener_store import StoreError, StoreNotMigrated
from warrener_store.databases.address import StoreUrlError
from warrener_store.databases.failures import AGAIN, MIGRATE

_WHERE = "--store or WARRENER_STORE_URL"


def command_error_from(error: StoreError) -> CommandError:
    """The error as a sentence of the command: it ends here, so nothing is tried again."""
    sentence = mask(str(error)).removesuffix(AGAIN).removesuffix(f"; {MIGRATE}")
    if isinstance(error, StoreUrlError):  # nothing was asked yet: it is the URL
        sentence, _, do = mask(str(error)).rpartition("; ")
        return CommandError(sentence, do=do.replace("WARRENER_STORE_URL", _WHERE), code=ExitCode.USAGE)
    if isinstance(error, StoreNotMigrated):
        return CommandError(sentence, do=MIGRATE, code=ExitCode.UNREACHABLE)
    return CommandError(sentence, do=_do(error), code=ExitCode.UNREACHABLE)


def _do(error: StoreError) -> str:
    state = next((state for cause in _causes(error) if (state := getattr(cause, "sqlstate", None))), "")
    match state[:2]:
        case "28":
            return f"check user and password in {_WHERE}"
        case "3D":
            return f"make the database (createdb), then run `warrener migrate`; or correct {_WHERE}"
        case "42":
            return "give the user the rights of the owner of the tables"
        case _:
            return f"start the database, or say where it is with {_WHERE}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What led to it, the newest first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
