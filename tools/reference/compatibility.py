"""Find the changes of a released schema that would break its readers or writers.

Services are upgraded one by one, and users at any time. So for a while new readers read old writers, and old
readers read new writers. Therefore a released version may become neither narrower (new readers would refuse
old writers) nor wider (old readers would refuse new writers). New optional fields are allowed, because old
readers ignore them. Any other change is a new version of the event, with an up-caster from the one before.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warrener_contracts.events import JsonObject
from warrener_contracts.json_safety import is_array, is_object

_ANNOTATIONS = frozenset({"title", "description", "examples", "$defs", "$id", "$schema", "$comment"})
_COMPARED_SEPARATELY = frozenset({"properties", "required", "enum", "anyOf", "items", "type", "default"})
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
NARROWER = "narrower: a reader of this version refuses what the released version writes"
WIDER = "wider: a reader of the released version refuses what this version writes"
NEW_CHOICE = f"is new, {WIDER}"


def find_breaking_changes(
    released: Mapping[str, Mapping[str, JsonObject]], schemas: Mapping[str, JsonObject]
) -> list[str]:
    """The breaking changes of `schemas` (by name) against releases (by release, then by name)."""
    return [
        complaint
        for release in sorted(released)
        for complaint in _against(release, released[release], schemas)
    ]


def compare_schemas(released: JsonObject, schema: JsonObject) -> list[str]:
    """The breaking changes of `schema` against the released one of the same name."""
    return list(_compare("", _SchemaNode(released), _SchemaNode(schema)))


def _against(
    release: str, released: Mapping[str, JsonObject], schemas: Mapping[str, JsonObject]
) -> Iterator[str]:
    for name in sorted(released):
        if name not in schemas:
            yield f"{name} (released in {release}): gone; keep it, an event with an up-caster from it"
            continue
        for complaint in compare_schemas(released[name], schemas[name]):
            yield f"{name} (released in {release}): {complaint}"


class _SchemaNode:
    """A node of a schema, with references followed."""

    def __init__(self, node: JsonObject, root: JsonObject | None = None) -> None:
        self.root = node if root is None else root
        while reference := node.get("$ref"):
            target: Any = self.root
            for part in str(reference).removeprefix("#/").split("/"):
                target = target[part]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        self.node = node

    def below(self, node: JsonObject) -> "_SchemaNode":
        return _SchemaNode(node, self.root)

    def children(self, key: str) -> dict[str, "_SchemaNode"]:
        return {name: self.below(node) for name, node in self.node.get(key, {}).items()}

    def branches(self) -> list["_SchemaNode"]:
        return [self.below(node) for node in self.node.get("anyOf", ())]

    def get(self, key: str) -> Any:
        return self.node.get(key)

    def whole(self, key: str) -> Any:
        """The value of a keyword that is compared as a whole, with the references in it followed too."""
        return self._whole(self.node.get(key))

    def _whole(self, value: Any, inside: frozenset[Any] = frozenset()) -> Any:
        if is_object(value):
            if (part := value.get("$ref")) in inside:
                return value  # a rule may contain rules: a recursive reference is not followed again
            inside |= {part} - {None}
            return {name: self._whole(inner, inside) for name, inner in self.below(value).node.items()}
        return [self._whole(inner, inside) for inner in value] if is_array(value) else value


def _compare(path: str, old: _SchemaNode, new: _SchemaNode) -> Iterator[str]:
    where = path or "the event"
    yield from _fields(path, old, new)
    yield from _choices(where, old, new)
    yield from _branches(where, old, new)
    if old.get("type") != new.get("type"):
        yield f"{where}: its type was {old.get('type')}, is {new.get('type')}"
    if old.get("default") != new.get("default"):
        before, after = old.get("default"), new.get("default")
        yield f"{where}: its default was {before!r}, is {after!r}: an unset field would change its meaning"
    if is_object(old.get("items")) and is_object(new.get("items")):
        yield from _compare(f"{where}[]", old.below(old.get("items")), new.below(new.get("items")))
    elif old.get("items") != new.get("items"):
        yield f"{where}: its items were {old.get('items')}, are {new.get('items')}"
    yield from _limits(where, old, new)


def _fields(path: str, old: _SchemaNode, new: _SchemaNode) -> Iterator[str]:
    before, after = old.children("properties"), new.children("properties")
    must_before: set[str] = set(old.get("required") or [])
    must_after: set[str] = set(new.get("required") or [])
    for name, field in before.items():
        where = f"{path}.{name}".removeprefix(".")
        if name not in after:
            yield f"{where}: removed or renamed; the released version has it"
            continue
        if name in must_after - must_before:
            yield f"{where}: required now, {NARROWER}"
        if name in must_before - must_after:
            yield f"{where}: no longer required, {WIDER}"
        yield from _compare(where, field, after[name])
    for name in sorted(must_after - before.keys()):
        where = f"{path}.{name}".removeprefix(".")
        yield f"{where}: a new required field, {NARROWER}; make it optional"


def _choices(where: str, old: _SchemaNode, new: _SchemaNode) -> Iterator[str]:
    before, after = old.get("enum"), new.get("enum")
    if before == after:
        return
    if before is None or after is None:
        yield f"{where}: its choices were {before}, are {after}"
        return
    for value in before:
        if value not in after:
            yield f"{where}: the choice {value!r} is gone, {NARROWER}"
    for value in after:
        if value not in before:
            yield f"{where}: the choice {value!r} {NEW_CHOICE}"


def _branches(where: str, old: _SchemaNode, new: _SchemaNode) -> Iterator[str]:
    """Compare each alternative with the one of the same type."""
    before, after = old.branches(), new.branches()
    for branch in _unmatched(before, after):
        yield f"{where}: no longer {_type_label(branch)}, {NARROWER}"
    for branch in _unmatched(after, before):
        yield f"{where}: {_type_label(branch)} too, {WIDER}"
    for branch in before:
        for counterpart in _counterparts(branch, after):
            yield from _compare(where, branch, counterpart)


def _unmatched(these: Sequence[_SchemaNode], those: Sequence[_SchemaNode]) -> list[_SchemaNode]:
    return [tree for tree in these if not _counterparts(tree, those)]


def _counterparts(tree: _SchemaNode, others: Sequence[_SchemaNode]) -> list[_SchemaNode]:
    return [other for other in others if _type_label(other) == _type_label(tree)][:1]


def _type_label(tree: _SchemaNode) -> str:
    return str(tree.get("type") or tree.get("const") or "anything")


def _limits(where: str, old: _SchemaNode, new: _SchemaNode) -> Iterator[str]:
    """Compare every other restriction. A change of an unknown keyword counts as breaking."""
    keys = (old.node.keys() | new.node.keys()) - _ANNOTATIONS - _COMPARED_SEPARATELY
    for key in sorted(keys):
        before, after = old.whole(key), new.whole(key)
        if before == after:
            continue
        yield f"{where}: {key} was {before!r}, is {after!r}: {_direction(key, before, after)}"


def _direction(key: str, before: Any, after: Any) -> str:
    if key in _LOWER | _UPPER:
        wider = after is None or (
            before is not None and (after < before if key in _LOWER else after > before)
        )
        return WIDER if wider else NARROWER
    return "one of the two versions refuses events of the other"
