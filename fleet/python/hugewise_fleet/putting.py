"""Puts what the partitions made into the lake. The driver does it: tables take a fortieth of the captures they are made from."""

from __future__ import annotations

import io
import os
import tempfile
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .folder import Folder
from .tables import TABLES

# Bytes of tables that wait for others of their day and bucket.
WAITING = 128 << 20
# Files on their way at once: an object store takes a while for each.
AT_ONCE = 8


@dataclass(frozen=True)
class _Made:
    """A file of a table that a partition made, and how many rows of each capture it has."""

    part: int
    table: str
    file: str
    rows: dict[str, int]
    content: bytes


class _Left:
    """What is not written: captures that a lower part has, and those that the table of the lake has."""

    def __init__(self, first: dict[str, int], held: dict[str, set[str]]) -> None:
        self._first, self._held = first, held

    def of(self, made: _Made) -> list[str]:
        lower = [each for each in made.rows if self._first.get(each, made.part) < made.part]
        return lower + [each for each in made.rows if made.table in self._held.get(each, ())]


def put(spark: Any, staging: str, lake: str) -> dict[str, int]:
    """Writes what is below `staging`, but for the captures that the lake has; how many rows each table got."""
    made, to = Folder(spark, f"{staging}/made"), Folder(spark, lake)
    whole = Folder(spark, f"{staging}/whole")
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with tempfile.TemporaryDirectory(prefix="hugewise-", dir=local) as folder, ThreadPoolExecutor(AT_ONCE) as threads:
        files = [Path(folder) / name for name in made.names()]
        list(threads.map(lambda file: made.fetch(file.name, file), files))
        # Decided before anything is among what the lake has.
        left = _Left(_first(files), _held(spark, made, to))
        written: dict[str, int] = {}
        ready = _compacted(_counted(_each(files), left, written), left)
        run = uuid.uuid4()

        def send(place: str, content: bytes, number: int) -> None:
            file = Path(folder) / f"part-{run}-{number:06}.parquet"
            file.write_bytes(content)
            to.put(file, f"{place}/{file.name}", whole)
            file.unlink()

        sent: deque[Future[None]] = deque()
        for number, (place, content) in enumerate(ready):
            sent.append(threads.submit(send, place, content, number))
            # What a store has not taken yet is in memory.
            if len(sent) > 2 * AT_ONCE:
                sent.popleft().result()
        for each in sent:
            each.result()
    return {table: written[table] for table in (*TABLES, "series") if table in written}


def _each(files: Iterable[Path]) -> Iterator[_Made]:
    import pyarrow.parquet

    for file in files:
        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                yield _Made(row["part"], row["table"], row["file"], dict(row["rows"]), row["content"])


def _first(files: Iterable[Path]) -> dict[str, int]:
    """The lowest part of each capture that several have."""
    import pyarrow.parquet

    lowest: dict[str, int] = {}
    several = set()
    for file in files:
        for row in pyarrow.parquet.read_table(file, columns=["part", "rows"], partitioning=None).to_pylist():
            for capture, _ in row["rows"]:
                other = lowest.setdefault(capture, row["part"])
                if other != row["part"]:
                    several.add(capture)
                    lowest[capture] = min(other, row["part"])
    return {capture: lowest[capture] for capture in several}


def _held(spark: Any, made: Folder, lake: Folder) -> dict[str, set[str]]:
    """The tables of the lake that have a capture already, for each capture of these of which there is one."""
    from pyspark.sql import functions as sql

    # A table without a row has no folder.
    tables = [f"{lake.path}/{name}" for name in lake.names() if name in (*TABLES, "series")]
    if not tables:
        return {}
    # One reading of all tables: a job for each would cost more than what it finds.
    known = spark.read.schema("capture string").option("recursiveFileLookup", "true").parquet(*tables)
    table = sql.regexp_extract("_metadata.file_path", "/([a-z]+)/day=[^/]*/bucket=[^/]*/[^/]*$", 1)
    new = spark.read.schema("rows map<string, bigint>").parquet(made.path).select(sql.explode("rows").alias("capture", "rows"))
    both = known.select("capture", table.alias("table")).join(new.select("capture"), "capture", "left_semi")
    return {row["capture"]: set(row["tables"]) for row in both.groupBy("capture").agg(sql.collect_set("table").alias("tables")).collect()}


def _counted(each: Iterable[_Made], left: _Left, written: dict[str, int]) -> Iterator[_Made]:
    for made in each:
        rows = sum(made.rows.values()) - sum(made.rows[capture] for capture in set(left.of(made)))
        if rows:
            written[made.table] = written.get(made.table, 0) + rows
            yield made


def _compacted(each: Iterable[_Made], left: _Left) -> Iterator[tuple[str, bytes]]:
    """Files of many parts as few: a file's description takes as much room as a hundred hosts in it."""
    waiting: dict[str, list[_Made]] = {}
    size = 0
    for made in each:
        waiting.setdefault(f"{made.table}/{made.file.rsplit('/', 1)[0]}", []).append(made)
        size += len(made.content)
        if size > WAITING:
            yield from _joined(waiting, left)
            waiting, size = {}, 0
    yield from _joined(waiting, left)


def _joined(waiting: dict[str, list[_Made]], left: _Left) -> Iterator[tuple[str, bytes]]:
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet

    for place, files in waiting.items():
        if len(files) == 1 and not left.of(files[0]):
            yield place, files[0].content
            continue
        # Executors with different versions of hugewise may write other columns.
        alike: dict[bytes, list[Any]] = {}
        for made in files:
            read = pyarrow.parquet.read_table(io.BytesIO(made.content), partitioning=None)
            if without := left.of(made):
                read = read.filter(pyarrow.compute.invert(pyarrow.compute.is_in(read["capture"], value_set=pyarrow.array(without, "string"))))
            alike.setdefault(read.schema.serialize().to_pybytes(), []).append(read)
        for tables in alike.values():
            joined = io.BytesIO()
            # What collect itself writes is packed like this.
            pyarrow.parquet.write_table(pyarrow.concat_tables(tables), joined, compression="gzip", compression_level=1, store_schema=False)
            yield place, joined.getvalue()
