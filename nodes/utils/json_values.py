"""JSON: values out of texts, and texts of values."""

from __future__ import annotations

import json
from typing import Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc, Multiline, Wire, node

Dictionary = Annotated[Any, Wire("DICT"), Doc("Dictionary to write.")]
Array = Annotated[Any, Wire("ARRAY"), Doc("List to write.")]
Indent = Annotated[int, Ge(0), Le(8), Doc("Spaces by level; 0 writes one line.")]


@node("JsonExtractString", category="utils/string", title="Extract Text from JSON")
def json_extract_string(json_string: Annotated[str, Multiline()], key: str) -> str:
    """Give the value of a key of the first JSON object in a text, such as the answer of a language model.

    Text around the object (words, Markdown) is ignored. Without an object, or without the key, the result
    is empty. Lists and objects come as JSON.

    Args:
        json_string: Text to search.
        key: Key of the outermost object.
    """
    decoder, at = json.JSONDecoder(), json_string.find("{")
    while at >= 0:
        try:
            value = decoder.raw_decode(json_string, at)[0].get(key, "")
        except (ValueError, RecursionError):
            at = json_string.find("{", at + 1)
            continue
        if isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        return "" if value is None else str(value)
    return ""


@node("ConvertDictionaryToString", category="utils/string", title="Convert Dictionary to String")
def convert_dictionary_to_string(dictionary: Dictionary, indent: Indent = 2) -> str:
    """Write a dictionary as JSON."""
    return _written(dictionary, indent)


@node("ConvertArrayToString", category="utils/string", title="Convert Array to String")
def convert_array_to_string(array: Array, indent: Indent = 2) -> str:
    """Write a list as JSON."""
    return _written(array, indent)


def _written(value: Any, indent: int) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent or None)
    except (TypeError, ValueError, RecursionError) as e:
        raise ValueError(f"this is no JSON value: {e}; PreviewAny shows what it is") from e
