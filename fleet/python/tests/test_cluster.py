"""Spark on executors of their own, which are killed while they read: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import duckdb

from . import lake

PACKAGE = Path(__file__).parents[1]
HOSTS, PARTS = 20, 4
# Seconds after which it hangs.
PATIENCE = 1200

# Reads the beginning of its captures, and the rest once it may.
SLOW = """#!/bin/sh
{{ head -c 300; touch {marks}/$$; until [ -e {go} ]; do sleep 0.1; done; cat; }} | {program} "$@"
"""


@unittest.skipUnless(
    importlib.util.find_spec("pyspark") and shutil.which("java") and os.environ.get("HUGEWISE_PROGRAM"),
    "pyspark, Java or HUGEWISE_PROGRAM is missing",
)
class Killed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        captures = self.folder / "captures"
        captures.mkdir()
        for number in range(HOSTS):
            (captures / f"host{number}.tar.gz").write_bytes(lake.capture(f"db{number}"))
        # The same capture twice, which may be in two parts, and two that fail.
        shutil.copy(captures / "host0.tar.gz", captures / "again.tar.gz")
        (captures / "torn.tar.gz").write_bytes(lake.capture("torn")[:150])
        (captures / "none.tar.gz").write_bytes(b"no capture")

    def test_an_executor_or_a_program_that_is_killed_takes_nothing_with_it(self) -> None:
        whole = rows_of(self._end(self._collect("whole", os.environ["HUGEWISE_PROGRAM"]), "whole"))
        self.assertEqual((len(whole["hosts"]), len(whole["failures"])), (HOSTS, 2))
        for victim, found in (("executor", _executor), ("program", _program)):
            with self.subTest(victim=victim):
                marks, go = self.folder / f"marks-{victim}", self.folder / f"go-{victim}"
                marks.mkdir()
                slow = self.folder / f"slow-{victim}"
                slow.write_text(SLOW.format(marks=marks, go=go, program=os.environ["HUGEWISE_PROGRAM"]))
                slow.chmod(0o755)
                running = self._collect(victim, str(slow))
                try:
                    reader = self._first(marks, running)
                    os.kill(found(reader), signal.SIGKILL)
                finally:
                    go.touch()
                self.assertEqual(rows_of(self._end(running, victim)), whole)
                self.assertGreater(len(list(marks.iterdir())), PARTS, "what was killed is tried again")
        self.assertEqual(list(self.folder.rglob("_staging*")), [])
        self.assertEqual(list(self.folder.rglob("_temporary")), [])
        self.assertEqual(list(self.folder.rglob("hugewise-*")), [], "Spark removes what the killed one was writing")

    def _collect(self, name: str, program: str) -> subprocess.Popen[str]:
        spark = importlib.util.find_spec("pyspark")
        assert spark and spark.submodule_search_locations
        # Executors write to SPARK_HOME/work.
        home = self.folder / f"spark-{name}"
        home.mkdir()
        for entry in Path(spark.submodule_search_locations[0]).iterdir():
            (home / entry.name).symlink_to(entry)
        command = [sys.executable, "-B", "-m", "hugewise_fleet", "collect", str(self.folder / "captures"), str(self.folder / f"lake-{name}")]
        command += ["--engine", "local-cluster[2,1,1024]", "--partitions", str(PARTS), "--label", "rac", "--program", program]
        set_up = {"PYTHONPATH": str(PACKAGE), "SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(self.folder), "TMPDIR": str(self.folder)}
        log = self._log(name).open("w")
        self.addCleanup(log.close)
        return subprocess.Popen(command, env={**os.environ, **set_up}, stdout=log, stderr=log, text=True)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _end(self, running: subprocess.Popen[str], name: str) -> Path:
        try:
            code = running.wait(PATIENCE)
        finally:
            running.kill()
        self.assertEqual(code, 0, self._log(name).read_text()[-4000:])
        return self.folder / f"lake-{name}"

    def _first(self, marks: Path, running: subprocess.Popen[str]) -> int:
        """The process that began to read first."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and running.poll() is None:
            for mark in marks.iterdir():
                return int(mark.name)
            time.sleep(0.1)
        running.kill()
        self.fail("nothing was read")


def rows_of(tables: Path, *but: str) -> dict[str, list[tuple]]:
    """All rows of each table, but for what differs from run to run and for these columns of failures."""
    db, rows = duckdb.connect(), {}
    for table in sorted(each.name for each in tables.iterdir() if each.is_dir() and not each.name.startswith("_")):
        source = f"read_parquet('{tables}/{table}/*/*/*.parquet', hive_partitioning = true)"
        # When a capture failed is of the run, and so is which of two names the same capture has.
        columns = {"failures": f"* EXCLUDE ({', '.join(('failed_at', 'day', *but))})", "hosts": "* EXCLUDE (path)"}.get(table, "*")
        answer = db.execute(f"SELECT {columns} FROM {source}")
        names = [column[0] for column in answer.description]
        rows[table] = sorted((tuple(row[names.index(name)] for name in sorted(names)) for row in answer.fetchall()), key=repr)
    return rows


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _executor(reader: int) -> int:
    """The executor that a program reads for."""
    while "CoarseGrainedExecutorBackend" not in Path(f"/proc/{reader}/cmdline").read_text():
        reader = _parent(reader)
    return reader


def _program(reader: int) -> int:
    """The hugewise that a shell has started, or is about to."""
    program = os.path.realpath(os.environ["HUGEWISE_PROGRAM"])
    while True:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and _parent(int(entry.name)) == reader and os.readlink(entry / "exe") == program:
                    return int(entry.name)
            except OSError:
                continue
