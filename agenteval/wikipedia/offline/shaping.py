"""A value made to obey a JSON Schema, as structured output promises: what fits is kept, the rest is plainly filled."""

from __future__ import annotations

from typing import Any

from agenteval.wire.records import Record

DEEPEST = 12
KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def shaped(value: Any, schema: Any, whole: Record | None = None, depth: int = 0) -> Any:
    """The value in the form of the schema; properties that the value lacks are filled, others dropped."""
    whole = schema if whole is None and isinstance(schema, dict) else whole
    schema = _resolved(schema, whole)
    if not isinstance(schema, dict) or depth > DEEPEST:
        return value
    if "const" in schema:
        return schema["const"]
    if options := schema.get("enum"):
        return value if value in options else options[0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        fitting = (option for option in options if is_kind(value, _kinds(_resolved(option, whole))))
        return shaped(value, next(fitting, options[0]), whole, depth + 1)
    kinds = _kinds(schema)
    kind = next((kind for kind in kinds if is_kind(value, [kind])), kinds[0] if kinds else None)
    if kind == "object":
        given = value if isinstance(value, dict) else {}
        parts = schema.get("properties") or {}
        return {name: shaped(given.get(name), part, whole, depth + 1) for name, part in parts.items()} or given
    if kind == "array":
        return _list(value if isinstance(value, list) else [], schema, whole, depth)
    return _plain(value, kind, schema)


def _list(items: list[Any], schema: Record, whole: Record | None, depth: int) -> list[Any]:
    items = items[: schema.get("maxItems")] + [None] * (schema.get("minItems", 0) - len(items))
    return [shaped(item, schema.get("items"), whole, depth + 1) for item in items]


def _plain(value: Any, kind: str | None, schema: Record) -> Any:
    if kind == "string":
        return (value if isinstance(value, str) else "")[: schema.get("maxLength")]
    if kind in ("number", "integer"):
        number = value if is_kind(value, ["number"]) else 0
        number = max(number, schema.get("minimum", number))
        number = min(number, schema.get("maximum", number))
        return round(number) if kind == "integer" else number
    if kind == "boolean":
        return value is True
    return None if kind == "null" else value


def _kinds(schema: Any) -> list[str]:
    """The types that a schema names, or shows by what else it says."""
    if not isinstance(schema, dict):
        return []
    named = schema.get("type") or ("object" if "properties" in schema else "array" if "items" in schema else [])
    return [named] if isinstance(named, str) else named


def is_kind(value: Any, kinds: list[str]) -> bool:
    """Whether a value is of one of the JSON types; true and false are no numbers."""
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, KINDS.get(kind, ())) for kind in kinds)


def _resolved(schema: Any, whole: Record | None) -> Any:
    """What a reference within the schema leads to."""
    for _ in range(DEEPEST):
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            break
        target: Any = whole
        for name in schema["$ref"].lstrip("#/").split("/") if schema["$ref"] != "#" else ():
            target = target.get(name) if isinstance(target, dict) else None
        schema = target
    return schema
