"""Reads captures on a cluster: one `hugewise collect -` serves a whole partition, and Spark commits what it made."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import putting
from .folder import Folder
from .tables import LakeError

# What a partition made: a file of a table, whose rows of each capture are counted.
STAGED = "part int, table string, file string, rows map<string, bigint>, content binary"

# A file is one cell of a row for Spark, which holds no more than 2 GiB, and an executor rarely as much.
LARGEST = 1 << 30


def too_large(spark: Any, captures: str) -> list[str]:
    """Files that `collect` passes over because of their size."""
    files = _files(spark, captures)
    # No file is larger than all of them, which Spark has listed already: mostly this saves a job.
    if int(str(files._jdf.queryExecution().analyzed().stats().sizeInBytes())) <= LARGEST:
        return []
    return [row["path"] for row in files.where(f"length > {LARGEST}").select("path").collect()]


def collect(
    spark: Any,
    captures: str,
    lake: str,
    program: str = "hugewise",
    label: str | None = None,
    partitions: int | None = None,
    clusters: str | None = None,
) -> dict[str, int]:
    """Reads the captures below a path into the tables of a lake; how many rows each table got.

    `clusters` has a host and its cluster per line, `label` is the cluster of those that are not in it.

    Spark commits the files that each partition made as a whole, so that a task which was killed and tried again counts
    once. Captures that several partitions met, or that are in the lake already, are not written again.
    """
    from pyspark import cloudpickle

    lake = lake.rstrip("/")
    files = _files(spark, captures).where(f"length <= {LARGEST}").select("path", "content")
    frame = files.repartition(partitions) if partitions else files
    # Executors need not have this package: what they run is sent to them.
    cloudpickle.register_pickle_by_value(sys.modules[__package__])
    staging = f"{lake}/_staging-{uuid.uuid4()}"
    try:
        made = frame.mapInArrow(lambda batches: _partition(batches, program, label, clusters), STAGED)
        made.write.option("compression", "none").parquet(f"{staging}/made")
        return putting.put(spark, staging, lake)
    finally:
        Folder(spark, staging).remove()


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


def _partition(batches: Iterator[Any], program: str, label: str | None, clusters: str | None) -> Iterator[Any]:
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet
    from pyspark import TaskContext

    # Spark removes its own folders, also those of an executor that was killed.
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    schema = pyarrow.schema(
        [("part", "int32"), ("table", "string"), ("file", "string"), ("rows", pyarrow.map_("string", "int64")), ("content", "binary")]
    )
    task = TaskContext.get()
    assert task
    with tempfile.TemporaryDirectory(prefix="hugewise-", dir=local) as folder:
        lake = Path(folder) / "lake"
        command = [program, "collect", "-", "--out", str(lake), "--format", "json"]
        command += ["--label", label] if label else []
        if clusters is not None:
            list_ = Path(folder) / "clusters"
            list_.write_text(clusters, encoding="utf-8")
            command += ["--clusters", str(list_)]
        _feed(command, batches)
        for file in sorted(lake.glob("*/day=*/bucket=*/*.parquet")):
            captures = pyarrow.parquet.read_table(file, columns=["capture"], partitioning=None)["capture"]
            counted = pyarrow.compute.value_counts(captures).to_pylist()
            made = {
                "part": task.partitionId(),
                "table": file.parts[-4],
                "file": "/".join(file.parts[-3:]),
                "rows": [(each["values"], each["counts"]) for each in counted],
                "content": file.read_bytes(),
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


def why(error: Exception) -> str:
    """What a failed job says: our own sentence, where an executor said one, or the line that tells most."""
    text = str(error).strip()
    if own := re.search(r"LakeError: (.+)", text):
        return own[1]
    # Of Python, the last line; of Java, the one after the name of the call.
    told = re.search(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S.*)", text) or re.search(r"^: (.+)", text, re.MULTILINE)
    return told[1] if told else text.split("\n", 1)[0]


@contextmanager
def told(about: str) -> Iterator[None]:
    """What Spark fails with becomes a LakeError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise LakeError(f"{about}: {why(error)}") from error


# No collector among them: Java does not start with two, and yours may be in spark-defaults.conf.
_FOR_SHORT_RUNS = "-XX:TieredStopAtLevel=1"


def session(master: str | None) -> Any:
    """The Spark of a master, or of spark-submit."""
    from pyspark.sql import SparkSession

    if master and master.startswith("local"):
        # Workers of this machine have what this program has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Java plans a few small jobs, hands bytes on, and ends. What compiles for long runs would take more than all of these.
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
