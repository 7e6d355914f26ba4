"""Reads captures on a cluster: one `hugewise collect -` serves a whole partition, and Spark commits what it made."""

from __future__ import annotations

import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .tables import TABLES, LakeError

# What a partition made: a file of a table, whose rows of each capture are counted.
STAGED = "part string, file string, schema binary, rows map<string, bigint>, content binary, table string"


# A file is one cell of a row for Spark, which holds no more than 2 GiB, and an executor rarely as much.
LARGEST = 1 << 30


def too_large(spark: Any, captures: str) -> list[str]:
    """Files that `collect` passes over because of their size."""
    return [row["path"] for row in _files(spark, captures).where(f"length > {LARGEST}").select("path").collect()]


def collect(spark: Any, captures: str, lake: str, program: str = "hugewise", label: str | None = None, partitions: int | None = None) -> dict[str, int]:
    """Reads the captures below a path into the tables of a lake; how many rows each table got.

    Spark commits the files that each partition made as a whole, so that a task which was killed and tried again counts
    once. Captures that several partitions met, or that are in the lake already, are not written again.
    """
    lake = lake.rstrip("/")
    files = _files(spark, captures).where(f"length <= {LARGEST}").select("path", "content")
    frame = files.repartition(partitions) if partitions else files
    staging = f"{lake}/_staging-{uuid.uuid4()}"
    try:
        made = frame.mapInArrow(lambda batches: _partition(batches, program, label), STAGED)
        made.write.partitionBy("table").parquet(staging)
        return _written(spark, staging, lake)
    finally:
        path = spark._jvm.org.apache.hadoop.fs.Path(staging)
        path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)


def _files(spark: Any, captures: str) -> Any:
    return spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(captures)


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
    import pyarrow.compute
    import pyarrow.parquet
    from pyspark import TaskContext

    # Spark removes its own folders, also those of an executor that was killed.
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    schema = pyarrow.schema(
        [("part", "string"), ("file", "string"), ("schema", "binary"), ("rows", pyarrow.map_("string", "int64")), ("content", "binary"), ("table", "string")]
    )
    task = TaskContext.get()
    assert task
    part = f"{task.partitionId():08}"
    with tempfile.TemporaryDirectory(prefix="hugewise-", dir=local) as folder:
        lake = Path(folder) / "lake"
        command = [program, "collect", "-", "--out", str(lake), "--format", "json"]
        _feed(command + (["--label", label] if label else []), batches)
        for file in sorted(lake.glob("*/day=*/bucket=*/*.parquet")):
            captures = pyarrow.parquet.read_table(file, columns=["capture"], partitioning=None)["capture"]
            counted = pyarrow.compute.value_counts(captures).to_pylist()
            made = {
                "part": part,
                "file": "/".join(file.parts[-3:]),
                "schema": pyarrow.parquet.read_schema(file).serialize().to_pybytes(),
                "rows": [(each["values"], each["counts"]) for each in counted],
                "content": file.read_bytes(),
                "table": file.parts[-4],
            }
            yield pyarrow.RecordBatch.from_pylist([made], schema=schema)


def _feed(command: list[str], batches: Iterator[Any]) -> None:
    """Runs the program on the captures of a partition; LakeError where it did not take them all."""
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        except OSError as error:
            raise LakeError(f"{command[0]} cannot be started on an executor ({error.strerror}): install it there, or name it with --program") from None
        assert child.stdin
        taken = True
        try:
            for piece in framed(_members(batches)):
                child.stdin.write(piece)
            child.stdin.close()
        except BrokenPipeError:
            taken = False
        except BaseException:
            child.kill()
            child.wait()
            raise
        # 1 and 3 are of what hosts say; 2 is of a lake that could not be written.
        if child.wait() not in (0, 1, 3) or not taken:
            said.seek(0)
            raise LakeError(f"{command[0]} collect ended with {child.returncode}: {said.read(4096).decode(errors='replace').strip()}")


def _members(batches: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    for batch in batches:
        for path, content in zip(*batch.columns):
            # Not copied: a bundle takes a good part of an executor's memory.
            yield path.as_py(), memoryview(content.as_buffer())


def _written(spark: Any, staging: str, lake: str) -> dict[str, int]:
    """Puts what the partitions made into the lake, but for the captures that are in it; how many rows each table got."""
    import pyarrow
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.types import from_arrow_schema

    staged = spark.read.schema(STAGED).parquet(staging)
    schemas = {row["table"]: row["schema"] for row in staged.groupBy("table").agg(sql.first("schema").alias("schema")).collect()}
    held = staged.select("table", "part", sql.explode("rows").alias("capture", "rows"))
    # Decided, and on the disk, before anything is among what the lake has.
    _left_out(spark, held, schemas, lake).write.parquet(f"{staging}/_left")
    left = spark.read.schema("table string, capture string, part string").parquet(f"{staging}/_left")
    some = not left.isEmpty()
    new = held.join(left, ["table", "capture", "part"], "left_anti") if some else held
    counted = {row["table"]: row["rows"] for row in new.groupBy("table").agg(sql.sum("rows").alias("rows")).collect()}
    for table in (table for table in (*TABLES, "series") if table in counted):
        schema = from_arrow_schema(pyarrow.ipc.read_schema(pyarrow.py_buffer(schemas[table])))
        schema = schema.add("day", "string").add("bucket", "string").add("part", "string")
        of_table = staged.where(sql.col("table") == table).select("part", "file", "content")
        rows = of_table.mapInArrow(_unpacked, schema)
        if some:
            not_these = left.where(sql.col("table") == table).select("capture", "part")
            rows = rows.join(sql.broadcast(not_these), ["capture", "part"], "left_anti")
        rows = rows.select(*(name for name in schema.names if name != "part"))
        rows.write.partitionBy("day", "bucket").mode("append").parquet(f"{lake}/{table}")
    return {table: counted[table] for table in (*TABLES, "series") if table in counted}


def _left_out(spark: Any, held: Any, tables: Iterable[str], lake: str) -> Any:
    """Captures of parts that are not written: another part has them, or the table of the lake."""
    from pyspark.sql import functions as sql

    least, most = sql.min("part").alias("least"), sql.max("part").alias("most")
    twice = held.groupBy("table", "capture").agg(least, most).where("least <> most")
    left = held.join(twice, ["table", "capture"]).where("part <> least").select("table", "capture", "part")
    for table in tables:
        # A table without a row has no folder.
        if _exists(spark, f"{lake}/{table}"):
            known = spark.read.schema("capture string").parquet(f"{lake}/{table}")
            of_table = held.where(sql.col("table") == table)
            left = left.union(of_table.join(known, "capture", "left_semi").select("table", "capture", "part"))
    return left.distinct()


def why(error: Exception) -> str:
    """What a failed job says: our own sentence, where an executor said one, or Spark's first line."""
    text = str(error).strip()
    own = re.search(r"LakeError: (.+)", text)
    return own[1] if own else text.split("\n", 1)[0]


def _exists(spark: Any, folder: str) -> bool:
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path)


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
                ("part", row["part"]),
            ):
                read = read.append_column(name, pyarrow.array([value] * len(read), "string"))
            yield from read.to_batches()


# No collector among them: Java does not start with two, and yours may be in spark-defaults.conf.
_FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1"


def session(master: str | None) -> Any:
    """The Spark of a master, or of spark-submit."""
    from pyspark.sql import SparkSession

    if master and master.startswith("local"):
        # Workers of this machine have what this program has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Java plans some twenty small jobs, hands bytes on, and ends. What compiles for long runs would take more than all of these.
    # Options of yours, and of whoever runs the cluster, come after those of this variable, which takes the place of none.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", _FOR_SHORT_RUNS)
    builder = SparkSession.builder.appName("hugewise-fleet").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.executorEnv.JDK_JAVA_OPTIONS", _FOR_SHORT_RUNS)
    builder = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    # A capture is small: with the usual 4 MiB for opening it, a partition would have 30 of them, and a program of its own.
    builder = builder.config("spark.sql.files.openCostInBytes", 256 << 10).config("spark.sql.files.maxPartitionBytes", 64 << 20)
    # A bundle is large, and Python holds a batch as a whole.
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", 16)
    return (builder.master(master) if master else builder).getOrCreate()


def program() -> str:
    """The hugewise that tests and people name, or the one on the path of each executor."""
    return os.environ.get("HUGEWISE_PROGRAM", "hugewise")
