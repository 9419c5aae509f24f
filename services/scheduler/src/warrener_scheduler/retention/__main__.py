"""`python -m warrener_scheduler.retention`, which `warrener prune` runs: one pass of deletion by hand."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from warrener_runtime.clock import SystemEntropy
from warrener_runtime.database_clock import DatabaseClock
from warrener_runtime.settings import SettingsError, load
from warrener_scheduler.retention.pruner import CLAIM, ClaimLost, PruneBatch, build_pruner
from warrener_scheduler.settings import SchedulerSettings
from warrener_store import StoreError, open_store

_FAILED, _USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Delete old rows, or count them in a dry run; the exit code."""
    options = _parser().parse_args(arguments)
    try:
        settings = load(SchedulerSettings, store_url=options.store)
        if not (options.dry_run or options.yes) and not _confirmed():
            return _USAGE
        steps = asyncio.run(_pass(settings, dry_run=options.dry_run))
    except (SettingsError, StoreError, OSError) as error:
        print(error, file=sys.stderr)
        return _FAILED
    except ClaimLost:
        print(
            "expected to prune alone, got a scheduler that does it at this moment; try again in a minute",
            file=sys.stderr,
        )
        return _FAILED
    found = _sum_batches(steps)
    if options.as_json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print_summary(found, "would go" if options.dry_run else "deleted")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="warrener prune", description="Delete what is old, at once.")
    parser.add_argument("--dry-run", action="store_true", help="count it, delete nothing")
    parser.add_argument("--yes", "-y", action="store_true", help="skip the confirmation")
    parser.add_argument("--json", dest="as_json", action="store_true", help="one JSON document")
    parser.add_argument("--store", help="URL of the store (default: as set for the scheduler)")
    return parser


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        print(
            "expected --yes without a terminal, got none; look with --dry-run, then add --yes",
            file=sys.stderr,
        )
        return False
    sys.stderr.write("Delete what is older than the settings say? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def _pass(settings: SchedulerSettings, *, dry_run: bool) -> list[PruneBatch]:
    store = open_store(settings.store_url)
    clock = DatabaseClock(store.time)
    pruner = build_pruner(store, clock, settings, holder=SystemEntropy().new_id_text())
    await store.start()
    try:
        await clock.start()
        if dry_run:
            return [step async for step in pruner.steps(dry_run=True)]
        if not await pruner.claim(CLAIM):
            raise ClaimLost
        steps = [step async for step in pruner.steps()]
        await pruner.release()
        return steps
    finally:
        await store.close()


def _sum_batches(steps: Sequence[PruneBatch]) -> list[dict[str, object]]:
    found: dict[str, tuple[str, int]] = {}
    for step in steps:
        found[step.what] = (step.before, found.get(step.what, ("", 0))[1] + step.rows)
    return [{"kind": what, "before": before, "rows": rows} for what, (before, rows) in found.items()]


def _print_summary(found: Sequence[dict[str, object]], what: str) -> None:
    for each in found:
        print(f"{each['rows']:>12,}  {what}  {each['kind']}  older than {each['before']}")


if __name__ == "__main__":
    sys.exit(main())
