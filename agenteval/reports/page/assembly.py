"""Builds the page around the data: template, style and script of this folder, with a policy that forbids all else.

The browser runs only the script and the style whose digests are in the policy, and loads nothing, whatever an agent
has put into the data.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from hashlib import sha256
from html import escape

HERE = os.path.dirname(os.path.abspath(__file__))
# In the order in which they build on each other.
SCRIPTS = (
    *("dom", "numbers", "blocks", "location", "content", "diff", "steps", "record", "side_by_side"),
    *("plots", "overview", "columns", "comparison", "table", "filters", "keys", "main"),
)
POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_FIELD = re.compile(r"\{\{(\w+)\}\}")


class PageParts:
    """What comes before the data that is read first, between the data, and after all of it."""

    def __init__(self, title: str) -> None:
        style, script = _read("page.css"), script_text()
        policy = POLICY.format(script=_digest(script), style=_digest(style))
        fields = {"policy": policy, "style": style, "title": escape(title)}
        filled = _FIELD.sub(lambda found: fields.get(found[1], found[0]), _read("template.html"))
        self.head, _, self.tail = filled.partition("{{data}}\n")
        self.script = f"<script>{script}</script>\n"


def script_text() -> str:
    """The script of the page: the files of scripts/, as one function, so that the page has no global names."""
    parts = [_read(os.path.join("scripts", f"{name}.js")) for name in SCRIPTS]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "})();\n"


def _read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
