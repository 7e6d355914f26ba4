"""The report: every question's answer, as text, JSON or one page."""

from __future__ import annotations

import html
import json
from typing import Any
from urllib.parse import quote

from .engines import Engine
from .questions import Question, all_questions

# Rows of one answer that a report shows; a page stays small however many hosts there are.
MOST_ROWS = 200
# Letters of one value that people are shown: what a host makes long does not make the report so.
LONGEST_TEXT = 400
# Letters of a name that stand on one line of the page.
LONGEST_NAME = 32
SCHEMA = "hugewise.fleet/1"

Answer = tuple[Question, list[dict[str, Any]]]


def answers(engine: Engine) -> list[Answer]:
    """Every question and its rows."""
    return [(question, engine.rows(question.sql)) for question in all_questions()]


def as_json(all_answers: list[Answer]) -> str:
    """All rows of all answers."""
    questions = [{"name": one.name, "title": one.title, "rows": rows} for one, rows in all_answers]
    return json.dumps({"schema": SCHEMA, "questions": questions}, indent=2, ensure_ascii=False) + "\n"


def as_text(all_answers: list[Answer]) -> str:
    """Tables for people, each answer's first rows."""
    parts = []
    for question, rows in all_answers:
        parts.append(question.title)
        parts.append(table(rows[:MOST_ROWS]) if rows else "  none")
        if len(rows) > MOST_ROWS:
            parts.append(f"  and {len(rows) - MOST_ROWS:,} more: hugewise-fleet ask LAKE {question.name} --format json")
        parts.append("")
    return "\n".join(parts)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows with a heading, numbers to the right."""
    names = list(rows[0])
    cells = [[shown(name, row[name]) for name in names] for row in rows]
    heads = [name.removesuffix("_bytes").replace("_", " ") for name in names]
    widths = [max(len(head), *(len(row[at]) for row in cells)) for at, head in enumerate(heads)]
    right = [all(isinstance(row[name], (int, float)) or row[name] is None for row in rows) for name in names]

    def line(texts: list[str]) -> str:
        each = (text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in zip(texts, widths, right))
        return "  " + "  ".join(each).rstrip()

    return "\n".join([line(heads), *map(line, cells)])


def shown(name: str, value: Any) -> str:
    """A value for people; what a host wrote cannot move the cursor or break a line."""
    if value is None or value == "":
        return "-"
    if name.endswith("_bytes") and isinstance(value, (int, float)):
        return size(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(value).replace("\n", " ")
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def size(value: float) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


# What stands for a host's name in the address of its page.
HOST = "{host}"


def as_page(all_answers: list[Answer], lake: str, pages: str | None = None) -> str:
    """One page without anything from elsewhere; every text is escaped. Each host is a link to its own page at `pages`, in
    which its name, percent-encoded, takes the place of `{host}`."""
    contents, parts = [], []
    for question, rows in all_answers:
        title = html.escape(question.title)
        contents.append(f'<li><a href="#{question.name}">{title}</a> ({len(rows):,})</li>')
        parts.append(f'<section id="{question.name}"><h2>{title}</h2>{_html_table(rows, pages)}</section>')
    return _PAGE.format(lake=html.escape(lake), contents="".join(contents), body="".join(parts))


def _html_table(rows: list[dict[str, Any]], pages: str | None) -> str:
    if not rows:
        return "<p>None.</p>"
    names = list(rows[0])
    head = "".join(_head(name, all(_is_number(row[name]) or row[name] is None for row in rows)) for name in names)
    body = "".join("<tr>" + "".join(_cell(name, row[name], pages) for name in names) + "</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>And {len(rows) - MOST_ROWS:,} more.</p>" if len(rows) > MOST_ROWS else ""
    return f'<div tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def _head(name: str, is_number: bool) -> str:
    number = ' class="n"' if is_number else ""
    return f'<th scope="col"{number}>{html.escape(name.removesuffix("_bytes").replace("_", " "))}</th>'


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(name: str, value: Any, pages: str | None) -> str:
    text = shown(name, value)
    # A name or a time is read whole; what is longer breaks its line.
    is_short = len(text) <= LONGEST_NAME and " " not in text
    kind = ' class="n"' if _is_number(value) else ' class="w"' if is_short else ""
    text = html.escape(text)
    # No name leads out of the folder of pages: a slash in it is encoded, and one of dots alone is no file's.
    if pages and name == "host" and value and str(value).strip("."):
        text = f'<a href="{html.escape(pages.replace(HOST, quote(str(value), safe="")))}">{text}</a>'
    return f"<td{kind}>{text}</td>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Huge pages of the fleet</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .25rem .75rem; border-bottom: 1px solid #8884; vertical-align: top; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
td.n, .w {{ white-space: nowrap; }}
/* Paper does not scroll: every column has to fit. */
@page {{ size: A4 landscape; margin: 1cm; }}
@media print {{
body {{ font-size: 9px; max-width: none; margin: 0; padding: 0; }}
div {{ overflow: visible; }}
th, td {{ padding: 2px 4px; overflow-wrap: anywhere; }}
.w {{ white-space: normal; }}
tr {{ break-inside: avoid; }}
}}
</style></head><body>
<h1>Huge pages of the fleet</h1><p>From {lake}. Each host counts with its latest whole capture.</p>
<nav><ol>{contents}</ol></nav>
{body}
</body></html>
"""
