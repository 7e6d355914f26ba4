"""Reads captures on a cluster: one `hugewise collect -` serves a whole partition, and Spark commits what it made."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .engines import TABLES, LakeError

STAGED = "table string, file string, content binary"


def collect(spark: Any, captures: str, lake: str, program: str = "hugewise", label: str | None = None, partitions: int | None = None) -> dict[str, int]:
    """Reads the captures below a path into the tables of a lake; how many rows each table got.

    Spark commits the files that each partition made as a whole, so that a task which was killed and tried again counts
    once. Captures that several partitions met, or that are in the lake already, are not written again.
    """
    lake = lake.rstrip("/")
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(captures).select("path", "content")
    staging = f"{lake}/_staging-{uuid.uuid4()}"
    frame = files.repartition(partitions or spark.sparkContext.defaultParallelism)
    frame.mapInArrow(lambda batches: _partition(batches, program, label), STAGED).write.parquet(staging)
    staged = spark.read.schema(STAGED).parquet(staging)
    written = {}
    for table in (*TABLES, "series"):
        if (rows := _rows(spark, staged, table, lake)) is not None:
            rows.write.partitionBy("day", "bucket").mode("append").parquet(f"{lake}/{table}")
            written[table] = rows.count()
            rows.unpersist()
    path = spark._jvm.org.apache.hadoop.fs.Path(staging)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)
    return written


def framed(members: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """What `hugewise collect -` reads: names and captures, each behind its length, and the mark of the end."""
    yield b"HWSTRM1\n"
    for name, content in members:
        encoded = (name or "?").encode()[-4096:]
        yield struct.pack(">I", len(encoded)) + encoded + struct.pack(">Q", len(content))
        yield content
    yield struct.pack(">IQ", 0, 0)


def _partition(batches: Iterator[Any], program: str, label: str | None) -> Iterator[Any]:
    import pyarrow

    with tempfile.TemporaryDirectory(prefix="hugewise-") as folder:
        lake = Path(folder) / "lake"
        command = [program, "collect", "-", "--out", str(lake), "--format", "json"]
        command += ["--label", label] if label else []
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
            assert child.stdin
            try:
                for piece in framed(_members(batches)):
                    child.stdin.write(piece)
                child.stdin.close()
            except BrokenPipeError:
                pass
            # 1 and 3 are of what hosts say; 2 is of a lake that could not be written.
            if child.wait() not in (0, 1, 3):
                said.seek(0)
                raise LakeError(f"{program} collect ended with {child.returncode}: {said.read(4096).decode(errors='replace').strip()}")
        for file in sorted(lake.glob("*/day=*/bucket=*/*.parquet")):
            made = {"table": [file.parts[-4]], "file": ["/".join(file.parts[-3:])], "content": [file.read_bytes()]}
            yield pyarrow.RecordBatch.from_pydict(made, schema=pyarrow.schema([("table", "string"), ("file", "string"), ("content", "binary")]))


def _members(batches: Iterator[Any]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["path"], row["content"]


def _rows(spark: Any, staged: Any, table: str, lake: str) -> Any:
    """The rows of a table that are new in the lake, each once; None where there are none."""
    import pyarrow.parquet
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import from_arrow_schema

    of_table = staged.where(sql.col("table") == table)
    first = of_table.first()
    if first is None:
        return None
    schema = from_arrow_schema(pyarrow.parquet.read_schema(io.BytesIO(first["content"])))
    schema = schema.add("day", "string").add("bucket", "string").add("_file", "string")
    rows = of_table.select("file", "content").mapInArrow(_unpacked, schema)
    kept = rows.groupBy("capture").agg(sql.min("_file").alias("_file"))
    rows = rows.join(kept, ["capture", "_file"]).select(*(name for name in schema.names if name != "_file"))
    try:
        known = spark.read.parquet(f"{lake}/{table}").select("capture").distinct()
        rows = rows.join(known, "capture", "left_anti").select(*(name for name in schema.names if name != "_file"))
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
    # The new rows are decided before they are among the known ones.
    rows = rows.persist()
    return rows if rows.count() else None


def _unpacked(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    for batch in batches:
        for row in batch.to_pylist():
            day, bucket, _ = row["file"].split("/")
            read = pyarrow.parquet.read_table(io.BytesIO(row["content"]))
            # Spark takes microseconds alone.
            micro = [each.with_type(pyarrow.timestamp("us", "UTC")) if pyarrow.types.is_timestamp(each.type) else each for each in read.schema]
            read = read.cast(pyarrow.schema(micro))
            day = day.removeprefix("day=")
            for name, value in (
                ("day", None if day == "__HIVE_DEFAULT_PARTITION__" else day),
                ("bucket", bucket.removeprefix("bucket=")),
                ("_file", row["file"]),
            ):
                read = read.append_column(name, pyarrow.array([value] * len(read), "string"))
            yield from read.to_batches()


def session(master: str | None) -> Any:
    """The Spark of a master, or of spark-submit."""
    from pyspark.sql import SparkSession

    if master and master.startswith("local"):
        # Workers of this machine have what this program has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("hugewise-fleet").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return (builder.master(master) if master else builder).getOrCreate()


def program() -> str:
    """The hugewise that tests and people name, or the one on the path of each executor."""
    return os.environ.get("HUGEWISE_PROGRAM", "hugewise")
