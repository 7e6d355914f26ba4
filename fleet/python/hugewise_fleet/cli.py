"""The command line."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from . import __version__, reading, report
from .engines import open_engine
from .questions import all_questions, question
from .tables import LakeError


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; 0 where it answered, 2 where it could not, 3 where it left something out."""
    asked = _parser().parse_args(arguments)
    # A terminal may not have every letter that a host has used.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        return asked.run(asked)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (LakeError, OSError) as error:
        print(f"hugewise-fleet: {error}", file=sys.stderr)
    except ImportError as error:
        print(f"hugewise-fleet: {error.name} is not installed; for this engine install hugewise-fleet[spark]", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hugewise-fleet", description=__import__(__package__).__doc__)
    parser.add_argument("--version", action="version", version=f"hugewise-fleet {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    whole = commands.add_parser("report", help="answer every question")
    one = commands.add_parser("ask", help="answer one question")
    listed = commands.add_parser("questions", help="list the questions")
    read = commands.add_parser("collect", help="read captures on a Spark cluster; on one machine, use hugewise collect")
    read.add_argument("captures", metavar="CAPTURES", help="captures, or folders of captures, as Spark paths: /captures, s3a://bucket/captures")
    read.add_argument("lake", metavar="LAKE", help="where the tables go")
    read.add_argument("--engine", default="spark", help="spark (for spark-submit), or a master such as spark://host:7077")
    read.add_argument("--label", metavar="CLUSTER", help="the cluster that these hosts belong to")
    read.add_argument("--clusters", type=Path, metavar="FILE", help="a file with a host and its cluster per line; the others get --label")
    read.add_argument("--partitions", type=int, metavar="N", help="number of parts to read the captures in")
    read.add_argument("--program", default=reading.program(), help="path of hugewise on the executors, if it is not in their PATH")
    read.set_defaults(run=_collect)
    for command in (whole, one):
        command.add_argument("lake", metavar="LAKE", help="the folder that hugewise collect --out wrote")
        command.add_argument("--engine", default="duckdb", help="duckdb, spark (for spark-submit), or a master such as spark://host:7077")
        command.add_argument("--out", type=Path, metavar="FILE", help="write to this file instead")
    whole.add_argument("--format", choices=("text", "json", "html"), default="text")
    whole.add_argument("--pages", metavar="ADDRESS", help="with html, link each host to its own page at this address, such as 'pages/{host}.html'")
    one.add_argument("question", choices=[each.name for each in all_questions()], metavar="QUESTION")
    one.add_argument("--format", choices=("text", "json"), default="text")
    whole.set_defaults(run=_report)
    one.set_defaults(run=_ask)
    listed.set_defaults(run=_questions)
    return parser


def _report(asked: argparse.Namespace) -> int:
    if asked.pages is not None and report.HOST not in asked.pages:
        raise LakeError(f"--pages {asked.pages} has no {report.HOST}, which stands for the host's name: --pages 'pages/{report.HOST}.html'")
    if asked.pages is not None and asked.format != "html":
        raise LakeError("only the page has links to hosts: add --format html")
    with closing(open_engine(asked.lake, asked.engine)) as engine:
        answers = report.answers(engine)
    if asked.format == "html":
        return _write(asked.out, report.as_page(answers, asked.lake, asked.pages))
    return _write(asked.out, report.as_json(answers) if asked.format == "json" else report.as_text(answers))


def _ask(asked: argparse.Namespace) -> int:
    one = question(asked.question)
    with closing(open_engine(asked.lake, asked.engine)) as engine:
        answers = [(one, engine.rows(one.sql))]
    return _write(asked.out, report.as_json(answers) if asked.format == "json" else report.as_text(answers))


def _collect(asked: argparse.Namespace) -> int:
    try:
        clusters = asked.clusters.read_text(encoding="utf-8-sig") if asked.clusters else None
    except UnicodeDecodeError:
        raise LakeError(f"{asked.clusters} is not a text in UTF-8: --clusters takes a file with a host and its cluster per line") from None
    with reading.told(f"Spark did not read {asked.captures} into {asked.lake}"):
        spark = reading.session(None if asked.engine == "spark" else asked.engine)
        try:
            large = reading.too_large(spark, asked.captures)
            written = reading.collect(spark, asked.captures, asked.lake, asked.program, asked.label, asked.partitions, clusters)
        finally:
            # Executors that end before their driver does are missed and started anew.
            spark.stop()
    for path in large:
        print(f"hugewise-fleet: {path} was not read: it is larger than 1 GiB; use hugewise collect, or split it into smaller bundles", file=sys.stderr)
    _write(None, "".join(f"{table}: {rows} rows\n" for table, rows in written.items()) or "nothing new\n")
    return 3 if large else 0


def _questions(_: argparse.Namespace) -> int:
    width = max(len(one.name) for one in all_questions())
    return _write(None, "".join(f"{one.name:<{width}}  {one.title}\n" for one in all_questions()))


def _write(file: Path | None, text: str) -> int:
    if file is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return 0
    # Whole or not at all; what hosts said is for the one who asked.
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-", delete=False, encoding="utf-8") as new:
            try:
                new.write(text)
                new.flush()
                os.replace(new.name, file)
            except OSError:
                os.unlink(new.name)
                raise
    except OSError as error:
        raise LakeError(f"{file} cannot be written: {error.strerror}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
