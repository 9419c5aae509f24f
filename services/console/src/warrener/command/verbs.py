"""The commands of a noun, made from its operations: `list`, `show`, and one for each verb."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from warrener import options
from warrener.context import ResolvedEndpoints, resolve_endpoints, run
from warrener.errors import CommandError, ExitCode, UsageError
from warrener.operations.masking import Masker
from warrener.operations.noun import (
    TEXTS,
    ActionBody,
    Backend,
    Flag,
    ListQuery,
    Noun,
    Outcome,
    OutcomeBody,
    Preview,
    Verb,
    VerbCall,
)
from warrener.render.screen import err, facts_grid, one_line, out, print_json, table
from warrener.render.times import ago, clock, span
from warrener.render.tones import Tone
from warrener.selection import suggest_job_type

T = TypeVar("T")
Command = Callable[..., None]
Page = Callable[[Any, datetime], RenderableType]
_KINDS: Mapping[Any, tuple[type, str | None]] = {
    bool: (bool, None),
    int: (int, "N"),
    float: (float, "N"),
    list: (list[str], "TEXT"),
    dict: (list[str], "KEY=VALUE"),
    timedelta: (str, "TIME"),
    datetime: (str, "TIME"),
}
"""Types of fields by the types and words of their options; all others are texts that the model reads."""
_OF_PREVIEWS = {
    "yes": (Annotated[bool, options.shared("Do it, not only show it.", names="--yes -y")], False),
    "is_dry": (
        Annotated[bool, options.shared("Only show it, with counts by group.", names="--dry-run")],
        False,
    ),
}
_OF_READS = {"store": (options.Store, None), "as_json": (options.Json, False)}
_OF_VERBS = {
    "no_wait": (options.NoWait, False),
    "timeout": (options.ReplyTimeout, options.DEFAULT_REPLY_TIMEOUT),
    "broker": (options.Broker, None),
    **_OF_READS,
}


def commands_of(noun: Noun, page: Page | None = None) -> dict[str, Command]:
    """Make the commands of a noun, by their words. `page` shows one thing, if the page of its fields does
    not."""
    verbs = {verb.word: verb_command(noun, verb) for verb in noun.verbs}
    show = {} if noun.read is None else {"show": _show_command(noun, page)}
    return {"list": _list_command(noun), **show, **verbs}


def look_command(noun: Noun) -> Command:
    """Make the one command that lists a noun, or shows what its argument names."""
    if noun.read is None:
        return _list_command(noun)
    list_all, show_one, shared = _list_command(noun), _show_command(noun, None), options_of_reads(noun)

    def command(key: str | None, **given: Any) -> None:
        if key is None:
            list_all(**given)
        else:
            show_one(key, **{name: given[name] for name in shared})

    argument = typer.Argument(metavar=noun.key.upper(), help=noun.key_help)
    key = {"key": (Annotated[str | None, argument], None)}
    return finished(command, noun.list, key, options_of(noun.query) | options_of_reads(noun))


def listing_callback(noun: Noun) -> Command:
    """Make the body of a group that lists its noun without a further word."""
    list_all = _list_command(noun)

    def command(context: typer.Context, **given: Any) -> None:
        if context.invoked_subcommand is None:
            list_all(**given)

    context = {"context": (typer.Context, Parameter.empty)}
    return finished(command, noun.list, context, options_of(noun.query) | options_of_reads(noun))


def list_nouns(noun: Noun, query: BaseModel, endpoints: ResolvedEndpoints, *, as_json: bool) -> None:
    """Print the things that a query finds as a table, or as a JSON array."""
    is_whole = noun.lists_all and "limit" not in query.model_fields_set
    job_type = getattr(query, "type", "") or getattr(query, "job_type", "")

    async def read(backend: Backend) -> tuple[BaseModel, list[Any], str]:
        page = await noun.list(backend, query)
        rows = list(noun.rows_of(page))
        while is_whole and (after := getattr(page, "next", None)) is not None:
            page = await noun.list(backend, query.model_copy(update={"after": after}))
            rows += noun.rows_of(page)
        return page, rows, "" if rows else await suggest_job_type(backend.store, job_type)

    page, rows, hint = with_backend(endpoints, read)
    if as_json:
        print_json(rows)
    elif rows:
        out().print(table_of(noun, rows, datetime.now(UTC)))
    else:
        err().print(f"[soft]{noun.empty}[/]")
    if hint:
        err().print(Text.assemble(("! ", "warning"), hint))
    if getattr(page, "is_complete", True) is False:
        err().print("[warning]![/] the list is not complete: narrow it, or continue it with --after")
    if following := getattr(page, "next", None):
        err().print(Text.assemble(("more: ", "soft"), f"--after '{following}'"), soft_wrap=True)


def _list_command(noun: Noun) -> Command:
    def command(*, store: str | None, as_json: bool, broker: str | None = None, **given: Any) -> None:
        if noun.lists_all and given["limit"] == noun.query.model_fields["limit"].default:
            del given["limit"]
        query = validated(noun.query, given)
        list_nouns(noun, query, resolve_endpoints(broker, store), as_json=as_json)

    return finished(command, noun.list, {}, options_of(noun.query) | options_of_reads(noun))


def _show_command(noun: Noun, page: Page | None) -> Command:
    read = noun.read
    assert read is not None

    def command(key: str, *, store: str | None, as_json: bool, broker: str | None = None) -> None:
        found = with_backend(resolve_endpoints(broker, store), lambda backend: read(backend, key))
        if as_json:
            print_json(found)
        else:
            now = datetime.now(UTC)
            out().print(_page(noun, found, now) if page is None else page(found, now))

    return finished(command, read, _key_of(noun), options_of_reads(noun))


def options_of_reads(noun: Noun) -> dict[str, tuple[Any, Any]]:
    return {**({"broker": (options.Broker, None)} if noun.uses_broker else {}), **_OF_READS}


def verb_command(noun: Noun, verb: Verb[Any]) -> Command:
    """Make the command of a verb. A dry run needs no reason, though the verb does."""
    reason = verb.body.model_fields["reason"]
    needs_reason = reason.is_required() and verb.preview is not None

    def command(
        key: str = "",
        *,
        keys: list[str] | None = None,
        no_wait: bool,
        timeout: float,
        broker: str | None,
        store: str | None,
        as_json: bool,
        by: str | None = None,
        yes: bool = True,
        is_dry: bool = False,
        **given: Any,
    ) -> None:
        if needs_reason and is_dry:
            given["reason"] = given["reason"] or options.DEFAULT_REASON
        elif needs_reason and not given["reason"]:
            raise UsageError("expected --reason, got none", do="give one; a dry run needs none")
        body = validated(verb.body, given | ({verb.keys: keys} if verb.keys else {}))
        who, reply_timeout = by or options.current_user(), None if no_wait else timeout
        call: partial[VerbCall[Any]] = partial(
            VerbCall, key=key, by=who, body=body, reply_timeout=reply_timeout
        )
        endpoints = resolve_endpoints(broker, store)
        preview = verb.preview
        if preview is not None and (is_dry or not yes):
            shown = with_backend(endpoints, lambda backend: preview(call(backend=backend)))
            _print_preview(noun, verb, shown, as_json=as_json)
            return
        with err().status("[soft]confirmed by the broker; a service carries it out[/]") as status:
            progress = None if no_wait else status.update

            async def perform(backend: Backend) -> Outcome:
                try:
                    return await verb.carry_out(call(backend=backend, progress=progress))
                except asyncio.CancelledError:
                    err().print(f"[warning]![/] waiting ended; {verb.goes_on.format(key=key)}")
                    raise

            outcome = with_backend(endpoints, perform, reads=verb.reads)
        groups = outcome.details.get("groups")
        found = _groups_table(noun, groups) if groups else outcome.shown
        if found is not None and not as_json:
            out().print(found)
        accepted = None if no_wait and outcome.accepted else outcome.accepted
        unconfirmed = outcome.unconfirmed or "the broker has it, and a service carries it out"
        sentence = unconfirmed if accepted is None else outcome.sentence
        if as_json:
            print_json(OutcomeBody(accepted=accepted, sentence=sentence, details=dict(outcome.details)))
        elif accepted is False:
            raise CommandError(sentence, code=ExitCode.NOT_SUCCESSFUL)
        else:
            mark = ("! ", "warning") if outcome.is_partial else ("✓ ", "good")
            err().print(Text.assemble(mark, sentence), soft_wrap=True)
        if accepted is False or outcome.is_partial:
            raise typer.Exit(ExitCode.NOT_SUCCESSFUL)

    several = typer.Argument(metavar="ID", help=f"{noun.key_help} Any number.")
    arguments = {"keys": (Annotated[list[str] | None, several], None)} if verb.keys else _key_of(noun)
    fields = options_of(verb.body, without=verb.keys)
    if needs_reason:
        about = f"{reason.description} A dry run needs none."
        fields["reason"] = _option("reason", FieldInfo(default=None, description=about))
    fields |= _OF_PREVIEWS if verb.preview else {}
    fields |= {"by": (options.By, None)} if verb.signed else {}
    return finished(command, verb.perform, arguments, fields | _OF_VERBS)


def _print_preview(noun: Noun, verb: Verb[Any], shown: Preview, *, as_json: bool) -> None:
    if as_json:
        print_json({"total": shown.total, "groups": shown.groups, "is_complete": shown.is_complete})
    elif not shown.groups:
        err().print(f"[soft]{noun.empty}[/]")
    else:
        out().print(_groups_table(noun, shown.groups))
        more = "" if shown.is_complete else "; more may match: these are the newest that were found"
        err().print(f"[warning]![/] nothing was done; to {verb.word} these {shown.total:,}: --yes{more}")


def _groups_table(noun: Noun, groups: Sequence[Mapping[str, Any]]) -> Table:
    return _table(noun.tones, {name: name for name in groups[0]}, [*map(dict, groups)], datetime.now(UTC))


def with_backend(
    endpoints: ResolvedEndpoints,
    use: Callable[[Backend], Awaitable[T]],
    *,
    reads: bool = True,
    reveals: bool = False,
) -> T:
    """Run the body of a command with a backend. `reads`: its store is open. `reveals`: secrets are shown."""

    async def body() -> T:
        backend = Backend(None, endpoints, Masker(None) if reveals else Masker())
        try:
            if reads:
                await backend.open_store()
            return await use(backend)
        finally:
            await backend.close()

    return run(body())


# -- arguments and options ---------------------------------------------------------------------------------


def finished(
    command: Command,
    described_by: Callable[..., Any],
    arguments: Mapping[str, tuple[Any, Any]],
    options: Mapping[str, tuple[Any, Any]],
) -> Command:
    """Give a command the help of the operation behind it, and the parameters that Typer reads."""
    command.__doc__ = described_by.__doc__
    command.__annotations__ = {}
    by_place, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    named = [(by_place, *one) for one in arguments.items()] + [(by_name, *one) for one in options.items()]
    command.__signature__ = Signature(  # type: ignore[attr-defined] # what Typer reads
        [Parameter(name, way, annotation=kind, default=default) for way, name, (kind, default) in named]
    )
    return command


def _key_of(noun: Noun) -> dict[str, tuple[Any, Any]]:
    argument = typer.Argument(metavar=noun.key.upper(), help=noun.key_help)
    return {"key": (Annotated[str, argument], Parameter.empty)}


def options_of(model: type[BaseModel], without: str | None = None) -> dict[str, tuple[Any, Any]]:
    """The options of a model's fields, with their defaults; those that all bodies have come last."""
    shared = {*ActionBody.model_fields, *ListQuery.model_fields}
    names = sorted(model.model_fields, key=lambda name: name in shared)
    return {name: _option(name, model.model_fields[name]) for name in names if name != without}


def _option(name: str, field: FieldInfo) -> tuple[Any, Any]:
    kinds = [get_origin(one) or one for one in (field.annotation, *get_args(field.annotation))]
    kinds = [getattr(one, "__origin__", one) for one in kinds]
    kind, metavar = next((_KINDS[one] for one in kinds if one in _KINDS), (str, "TEXT"))
    flags = [one for one in field.metadata if isinstance(one, Flag)] or [Flag(f"--{name.replace('_', '-')}")]
    default = field.default if isinstance(field.default, str | int | float) else None
    is_shown = not field.is_required() and default not in (None, "", False)
    names = f"{flags[0].word} {flags[0].short or ''}"
    described = options.shared(field.description or "", metavar, names=names, show_default=is_shown)
    given: Any = kind if field.is_required() else kind | None
    return Annotated[given, described], ... if field.is_required() else default


def validated(model: type[BaseModel], given: Mapping[str, Any]) -> Any:
    with options.report_invalid_fields():
        return model.model_validate(
            {name: value for name, value in given.items() if value is not None}, context=TEXTS
        )


# -- tables and pages --------------------------------------------------------------------------------------


def table_of(noun: Noun, rows: Sequence[Any], now: datetime) -> Table:
    """Things, one a line, by the columns of their noun."""
    return _table(noun.tones, noun.columns, rows, now)


def _table(
    tones: Mapping[str, Tone],
    columns: Mapping[str, str | Callable[[Any], Any]],
    rows: Sequence[Any],
    now: datetime,
) -> Table:
    numbers = [label for label, name in columns.items() if isinstance(value_of(rows[0], name), int)]
    made = table(*columns, right=numbers)
    for row in rows:
        made.add_row(*(cell(tones, name, value_of(row, name), now) for name in columns.values()))
    return made


def value_of(row: Any, name: str | Callable[[Any], Any]) -> Any:
    """The value of a column: a field of the row, an entry of it, or a function of it."""
    if callable(name):
        return name(row)
    return cast("dict[str, Any]", row)[name] if isinstance(row, dict) else getattr(row, name)


def _page(noun: Noun, found: BaseModel, now: datetime) -> Group:
    """One thing: its name and state, then each field that says something; lists of things stand below."""
    labels = {name: label for label, name in noun.columns.items() if isinstance(name, str)}
    names = dict.fromkeys([*type(found).model_fields, *labels])
    grid, below = facts_grid(), list[RenderableType]()
    for name in names:
        value, label = getattr(found, name), labels.get(name, name.replace("_", " "))
        if name in (noun.key, "state") or value in (None, "", False, [], {}):
            continue
        if isinstance(value, list) and isinstance(value[0], BaseModel):
            fields = {field.replace("_", " "): field for field in type(value[0]).model_fields}
            nested = _table(noun.tones, fields, cast("list[BaseModel]", value), now)
            below += [Text(label, style="soft"), Padding(nested, (0, 0, 1, 2), expand=False)]
        elif isinstance(value, datetime):
            grid.add_row(label, f"{clock(value)}, {ago(value, now)}")
        else:
            grid.add_row(label, cell(noun.tones, name, value, now))
    state = cell(noun.tones, "state", getattr(found, "state", ""), now)
    head = Text.assemble(state, "  ", (str(getattr(found, noun.key)), "key"))
    return Group(head, Padding(grid, (1, 0, 0, 2), expand=False), *below)


def cell(tones: Mapping[str, Tone], name: str | Callable[[Any], Any], value: Any, now: datetime) -> Text:
    text, style = "", ""
    match value:
        case None:
            pass
        case Text():
            return value
        case datetime():
            text, style = ago(value, now), "soft"
        case timedelta():
            text = span(value)
        case list() | tuple():
            text = ", ".join(map(str, cast("Sequence[object]", value)))
        case dict():
            text = ", ".join(f"{key}: {one}" for key, one in cast("dict[object, object]", value).items())
        case bool():
            text = "yes" if value else ""
        case int():
            text = str(value) if name == "pid" else f"{value:,}"
        case _:
            text = one_line(str(value))
    if name == "state":
        text, style = text.replace("_", " "), tones.get(text, "")
    return Text(text, style=style)
