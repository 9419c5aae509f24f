"""Rendering of views: Jinja templates with autoescape, the macros `ui`, and what every template may use."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from warrener.operations.audit import OUTCOME_TONES as AUDIT_TONES
from warrener.operations.dead_letters import DEAD_LETTERS
from warrener.operations.masking import Masker
from warrener.operations.redrives import REDRIVES
from warrener.operations.workflows import CALL_TONES, CallState
from warrener.render.jobs import OUTCOME_TONES
from warrener.render.times import MOMENT, brief, span, time_in_zone
from warrener.render.tones import STATE_SIGNS, TONE_SIGNS, Tone
from warrener.web.charts.small import draw_counts
from warrener.web.page import Page, PageRequest, Theme, View
from warrener.web.site import NAVIGATION, Site
from warrener.web.static_files import static_url
from warrener_contracts.state_machine import JobState
from warrener_store.audit.rows import AuditOutcome
from warrener_store.dead_letters.rows import DeadLetterState, RedriveState
from warrener_store.jobs.rows import AttemptOutcome

NOTICE_COOKIE = "warrener_notice"
_MAX_NOTICE = 1500  # characters; browsers store 4096 bytes a cookie
_MAX_JSON = 16_000  # characters of one document on a page
_NOTHING = "\N{EN DASH}"
_TONES: Mapping[type, Mapping[Any, Tone]] = {
    AttemptOutcome: OUTCOME_TONES,
    AuditOutcome: AUDIT_TONES,
    CallState: CALL_TONES,
    DeadLetterState: DEAD_LETTERS.tones,
    RedriveState: REDRIVES.tones,
}


def theme_of(cookies: Mapping[str, str]) -> Theme:
    """The reader's choice of colours."""
    theme = cookies.get("theme")
    return cast("Theme", theme) if theme in {"light", "dark"} else "auto"


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence on top of a page: the end of an action. A cookie brings it to the next page."""

    sentence: str
    accepted: bool

    def encode(self) -> str:
        """Write the notice as the text of a cookie."""
        text = json.dumps([self.accepted, self.sentence[:_MAX_NOTICE]], ensure_ascii=False)
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "Notice | None":
        """Read a cookie; None if it is empty, or not ours."""
        try:
            accepted, sentence = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, TypeError, binascii.Error):
            return None
        return cls(sentence, bool(accepted)) if isinstance(sentence, str) else None


class Renderer:
    """Renders views of one site. The page of a view is None for a problem."""

    def __init__(self, site: Site, masker: Masker) -> None:
        self._site = site
        self._environment = Environment(
            loader=PackageLoader("warrener.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        filters = {"brief": _brief, "count": _count, "as_json": partial(_as_json, masker)}
        self._environment.filters.update(filters)
        # Its type knows the built-in ones alone.
        variables = cast("dict[str, Any]", self._environment.globals)
        variables |= {"static": static_url, "url_for": site.url_for, "badge_of": badge_of}
        variables |= {
            "with_query": _with_query,
            "needs_reason": self._needs_reason,
            "draw_counts": draw_counts,
        }

    def page(self, request: PageRequest, page: Page | None, view: View, notice: Notice | None = None) -> str:
        return self._render("layout.html", request, page, view, notice)

    def content(self, request: PageRequest, page: Page | None, view: View) -> str:
        """Render the content of a page alone."""
        return self._render("parts/content.html", request, page, view)

    def standalone(self, template: str, variables: Mapping[str, Any]) -> str:
        """Render a template that shows nothing of the site, such as the sign-in form."""
        return self._environment.get_template(template).render(variables)

    def notice(self, notice: Notice) -> str:
        return self._environment.get_template("parts/notice.html").render(notice=notice)

    def _render(
        self, layout: str, request: PageRequest, page: Page | None, view: View, notice: Notice | None = None
    ) -> str:
        variables = {
            **self._variables(request),
            "layout": self._environment.get_template(layout),
            "page": page,
            "title": view.title,
            "refresh": view.refresh or (page.refresh if page else None),
            "notice": notice,
        }
        macros = self._environment.get_template("parts/ui.html").make_module(variables)
        template = self._environment.get_template(f"pages/{page.template if page else 'problem'}.html")
        return template.render({**variables, **view.context, "ui": macros})

    def _needs_reason(self, action: str) -> bool:
        return self._site.actions[action].needs_reason

    def _variables(self, request: PageRequest) -> dict[str, Any]:
        reader, now = request.reader, request.now
        site, role = self._site, reader.principal.role

        absolute = partial(time_in_zone, now=now, zone=reader.zone)

        def may(action: str) -> bool:
            return action in site.actions and role.allows(site.actions[action].verb.role)

        def local_times(text: str) -> str:
            return MOMENT.sub(lambda found: absolute(datetime.fromisoformat(found.group())), text)

        return {
            "url": request.url,
            "query": request.query,
            "principal": reader.principal,
            "zone": reader.zone,
            "theme": reader.theme,
            "csrf_token": reader.csrf_token,
            "now": now,
            "may": may,
            "relative": partial(relative_words, now=now),
            "absolute": absolute,
            "local_times": local_times,
            "navigation": [
                entry
                for entry in NAVIGATION
                if entry.section in site.pages and role.allows(site.pages[entry.section].role)
            ],
        }


def badge_of(state: str | tuple[str, str]) -> tuple[str, str, str]:
    """Sign, word and tone of a state, an outcome, or a pair (word, tone)."""
    word, tone = (state, "soft") if isinstance(state, str) else state
    if (tones := _TONES.get(type(state))) is not None:
        tone = tones[state].value
    elif word is state and word in set(JobState):
        sign, tone_of_state = STATE_SIGNS[JobState(word)]
        return sign, str(word), tone_of_state.value
    return TONE_SIGNS[Tone(tone)], str(word).replace("_", " "), Tone(tone).value


def relative_words(moment: datetime, now: datetime) -> str:
    """`now`, `4 s ago`, `5 min ago`, `in 2 h 10 min`: as coarse as console.js writes it."""
    gone = now - moment
    seconds = abs(gone.total_seconds())
    if seconds < 1:
        return "now"
    length = f"{seconds:.0f} s" if seconds < 10 else span(gone, units=1 if seconds < 3600 else 2)
    return f"{length} ago" if gone > timedelta(0) else f"in {length}"


def _count(number: float | None) -> str:
    """A number with thin spaces between its thousands."""
    return _NOTHING if number is None else f"{number:,}".replace(",", "\u202f")


def _brief(length: timedelta | float | None) -> str:
    if length is None:
        return _NOTHING
    return brief(length if isinstance(length, timedelta) else timedelta(seconds=length))


def _as_json(masker: Masker, value: Any) -> str:
    text = json.dumps(masker.value(value), indent=2, ensure_ascii=False, default=_plain)
    if len(text) <= _MAX_JSON:
        return text
    return f"{text[:_MAX_JSON]}\n… {len(text):,} characters in all; the API has them"


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _with_query(query: Mapping[str, str], **changes: str | None) -> str:
    """A query string with some parameters changed; None removes one."""
    changed = {key: value for key, value in {**query, **changes}.items() if value not in {None, ""}}
    return f"?{urlencode(changed)}" if changed else "?"
