"""Spark on machines that share nothing but a network, with captures and tables in an object store."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from hugewise_fleet import report
from hugewise_fleet.engines import DuckDb
from hugewise_fleet.questions import question

from . import lake, store
from .machines import PROGRAM, VENV, Machine, Network
from .test_cluster import HOSTS, PARTS, rows_of

PACKAGE = Path(__file__).parents[1]
PATIENCE = 600
# A capture in a store has another path than in a folder, and what is told of one that failed may name it.
ELSEWHERE = ("path", "message")
JARS = os.environ.get("HUGEWISE_JARS")

# On the machine of the store: buckets, the captures that were laid there, and faults as a file asks for them.
STORE = """
import pathlib, sys, time
sys.path.insert(0, "/tmp/package")
from tests.store import REGION, Store
store, here = Store("0.0.0.0", 9000), pathlib.Path("/tmp")
client = store.client()
for bucket in ("captures", "lakes"):
    client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
for file in (here / "captures").iterdir():
    client.put_object(Bucket="captures", Key=f"prod/{file.name}", Body=file.read_bytes())
(here / "is-up").touch()
while True:
    store.busy_every = int((here / "busy-every").read_text() or 0) if (here / "busy-every").exists() else 0
    if (here / "wanted").exists():
        prefix = (here / "wanted").read_text()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket="lakes", Prefix=prefix):
            for each in page.get("Contents", []):
                if not each["Key"].endswith("/"):
                    file = here / "lakes" / each["Key"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(client.get_object(Bucket="lakes", Key=each["Key"])["Body"].read())
        (here / "wanted").rename(here / "given")
    time.sleep(0.1)
"""

# Reads the beginning of its captures, and the rest once it may.
SLOW = """#!/bin/sh
{ head -c 300; touch /tmp/reading; until [ -e /tmp/go ]; do sleep 0.1; done; cat; } | /usr/local/bin/hugewise "$@"
"""

SETTINGS = f"""
spark.jars {{jars}}
spark.hadoop.fs.s3a.endpoint http://store:9000
spark.hadoop.fs.s3a.endpoint.region {store.REGION}
spark.hadoop.fs.s3a.path.style.access true
spark.network.timeout 20s
spark.network.timeoutInterval 5s
spark.executor.heartbeatInterval 2s
"""


@unittest.skipUnless(
    importlib.util.find_spec("pyspark") and shutil.which("java") and os.environ.get("HUGEWISE_PROGRAM") and JARS and os.geteuid() == 0,
    "pyspark, Java, HUGEWISE_PROGRAM or HUGEWISE_JARS is missing, or root's rights",
)
class Apart(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.network = Network(os.environ["HUGEWISE_PROGRAM"])
        self.addCleanup(self.network.close)
        self.store = self.network.machine("store", has_hugewise=False)
        captures = self.store.root / "tmp/captures"
        captures.mkdir()
        for number in range(HOSTS):
            (captures / f"host{number}.tar.gz").write_bytes(lake.capture(f"db{number}"))
        shutil.copy(captures / "host0.tar.gz", captures / "again.tar.gz")
        (captures / "none.tar.gz").write_bytes(b"no capture")
        self.near = self.folder / "near"
        collect = [os.environ["HUGEWISE_PROGRAM"], "collect", str(captures), "--out", str(self.near), "--label", "rac"]
        subprocess.run(collect, check=False, capture_output=True)
        self._start(self.store, f"{VENV}/bin/python", "-c", STORE)
        self.master = self.network.machine("master", has_hugewise=False)
        self._spark(self.master, "org.apache.spark.deploy.master.Master", "--host", "master")
        self.workers = [self._worker(f"worker{number}") for number in (1, 2)]
        self.driver = self._driver()
        self.network.until((self.store.root / "tmp/is-up").exists, "the store does not start")

    def test_tables_of_machines_that_share_nothing_are_those_of_collect(self) -> None:
        whole = rows_of(self.near, *ELSEWHERE)
        self.assertEqual((len(whole["hosts"]), len(whole["failures"])), (HOSTS, 1))
        # A machine goes without a word while it reads, and the store is busy.
        slow = [f"/tmp/slow-{machine.name}" for machine in self.workers]
        for machine in self.workers:
            self._laid(machine, "tmp/slow", SLOW, 0o755)
        self._laid(self.store, "tmp/busy-every", "5")
        running = self._collect("s3a://lakes/killed", "/tmp/slow")
        gone, stays = self._reads_first(running)
        self.assertEqual([each for each in _commands() if store.SECRET in each], [], "keys are not for ps to show")
        gone.kill()
        for machine in (stays, self._worker("worker3")):
            self._laid(machine, "tmp/slow", SLOW, 0o755)
            (machine.root / "tmp/go").touch()
        self.assertEqual(self._end(running), 0, self._said())
        self.assertEqual(rows_of(self._lake("killed"), *ELSEWHERE), whole)
        again = self._collect("s3a://lakes/killed", PROGRAM)
        self.assertEqual(self._end(again), 0, self._said())
        self.assertIn("nothing new", self._said())
        self.assertEqual(rows_of(self._lake("killed"), *ELSEWHERE), whole)
        self._laid(self.store, "tmp/busy-every", "0")
        asked = self._fleet("ask", "s3a://lakes/killed", "causes", "--engine", "spark://master:7077", "--format", "json")
        self.assertEqual(self._end(asked), 0, self._said())
        answers = json.loads((self.folder / "out").read_text())
        one = question("causes")
        self.assertEqual(answers, json.loads(report.as_json([(one, DuckDb(str(self.near)).rows(one.sql))])))

    def test_what_a_store_refuses_is_said(self) -> None:
        for lake_, keys, told in (
            ("s3a://nowhere/prod", {}, "nowhere"),
            ("s3a://lakes/prod", {"AWS_ACCESS_KEY_ID": "AKIDOTHER"}, "InvalidAccessKeyId"),
        ):
            with self.subTest(lake=lake_):
                self.assertEqual(self._end(self._collect(lake_, PROGRAM, **keys)), 2, self._said())
                *_, last = self._said().strip().splitlines()
                self.assertIn("hugewise-fleet: Spark did not read s3a://captures/prod", last)
                self.assertIn(told, last)
                self.assertNotIn(store.SECRET, self._said())

    def _collect(self, to: str, program: str, **variables: str) -> subprocess.Popen[str]:
        command = ["collect", "s3a://captures/prod", to, "--engine", "spark://master:7077", "--label", "rac", "--program", program]
        return self._fleet(*command, "--partitions", str(PARTS), **variables)

    def _fleet(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        variables = {
            "PYTHONPATH": "/tmp/package",
            "SPARK_CONF_DIR": "/tmp/conf",
            "PYSPARK_PYTHON": f"{VENV}/bin/python",
            "AWS_ACCESS_KEY_ID": store.KEY,
            "AWS_SECRET_ACCESS_KEY": store.SECRET,
            **variables,
        }
        with (self.folder / "out").open("w") as out, (self.folder / "errors").open("w") as errors:
            return self.driver.start(f"{VENV}/bin/python", "-B", "-m", "hugewise_fleet", *command, variables=variables, stdout=out, stderr=errors)

    def _end(self, running: subprocess.Popen[str]) -> int:
        try:
            return running.wait(PATIENCE)
        finally:
            running.kill()

    def _said(self) -> str:
        return (self.folder / "errors").read_text() + (self.folder / "out").read_text()

    def _reads_first(self, running: subprocess.Popen[str]) -> tuple[Machine, Machine]:
        """The worker that began to read, and the other."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and running.poll() is None:
            for machine, other in (self.workers, self.workers[::-1]):
                if (machine.root / "tmp/reading").exists():
                    return machine, other
            time.sleep(0.1)
        running.kill()
        self.fail(f"nothing was read: {self._said()}")

    def _lake(self, name: str) -> Path:
        given = self.store.root / "tmp/given"
        given.unlink(missing_ok=True)
        self._laid(self.store, "tmp/wanted", name)
        self.network.until(given.exists, "the store gives nothing")
        to = self.folder / name
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.store.root / "tmp/lakes" / name, to)
        self.assertEqual([each.name for each in to.iterdir() if each.name.startswith("_")], [])
        return to

    def _driver(self) -> Machine:
        driver = self.network.machine("driver", has_hugewise=False)
        (driver.root / "tmp/conf").mkdir()
        shutil.copytree(str(JARS), driver.root / "tmp/jars")
        jars = ",".join(f"/tmp/jars/{jar.name}" for jar in Path(str(JARS)).glob("*.jar"))
        self._laid(driver, "tmp/conf/spark-defaults.conf", SETTINGS.format(jars=jars))
        shutil.copytree(PACKAGE, driver.root / "tmp/package", ignore=shutil.ignore_patterns("__pycache__"))
        return driver

    def _worker(self, name: str) -> Machine:
        machine = self.network.machine(name)
        self._spark(machine, "org.apache.spark.deploy.worker.Worker", "--host", name, "--cores", "1", "--memory", "1g", "spark://master:7077")
        return machine

    def _spark(self, machine: Machine, *command: str) -> None:
        home = f"{VENV}/{Path(sys.prefix, 'lib').joinpath(*_SPARK).relative_to(sys.prefix)}"
        variables = {"SPARK_HOME": home, "SPARK_WORKER_DIR": "/tmp/work", "SPARK_DAEMON_MEMORY": "256m"}
        self._start(machine, f"{home}/bin/spark-class", *command, variables=variables)

    def _start(self, machine: Machine, *command: str, **options: Any) -> None:
        if machine.name == "store":
            shutil.copytree(PACKAGE, machine.root / "tmp/package", ignore=shutil.ignore_patterns("__pycache__"))
        with (self.folder / f"{machine.name}.log").open("w") as log:
            machine.start(*command, stdout=log, stderr=log, **options)

    def _laid(self, machine: Machine, name: str, text: str, mode: int = 0o644) -> None:
        # Whole at once: it may be looked at meanwhile.
        new = machine.root / f"{name}.new"
        new.write_text(text)
        new.chmod(mode)
        new.rename(machine.root / name)


def _commands() -> list[str]:
    """The command line of each process, as ps shows it."""
    told = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                told.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return told


# Where the Python of the tests has Spark.
_SPARK = (f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages", "pyspark")
