"""The questions: one file of SQL each, whose first lines say what it asks."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Question:
    """A question and its SQL."""

    name: str
    title: str
    sql: str


def all_questions() -> list[Question]:
    """Every question, in the order of the report."""
    files = [file for file in resources.files(__package__).joinpath("sql").iterdir() if file.name.endswith(".sql")]
    return [_read(file.name, file.read_text("utf-8")) for file in sorted(files, key=lambda file: file.name)]


def question(name: str) -> Question:
    """One by its name; KeyError where there is none."""
    for one in all_questions():
        if one.name == name:
            return one
    raise KeyError(name)


def _read(file: str, text: str) -> Question:
    title = text.splitlines()[0].removeprefix("-- ").rstrip(".")
    return Question(file.removesuffix(".sql").split("-", 1)[1], title, text)
