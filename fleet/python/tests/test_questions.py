"""What the questions say of a lake whose figures were counted by hand."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import duckdb

from hugewise_fleet import cli, reading, report
from hugewise_fleet.engines import DuckDb, Spark
from hugewise_fleet.tables import LakeError
from hugewise_fleet.questions import all_questions, question

from . import lake
from .lake import GIB


class Answers(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.lake = str(lake.make(Path(self._folder.name) / "lake"))
        self.engine = DuckDb(self.lake)

    def ask(self, name: str) -> list[dict]:
        return self.engine.rows(question(name).sql)

    def test_a_host_counts_with_its_latest_capture(self) -> None:
        [totals] = self.ask("totals")
        self.assertEqual((totals["hosts"], totals["instances"]), (6, 6))
        self.assertEqual(totals["page_tables_bytes"], (4 * 8 + 1) * GIB)
        self.assertEqual(totals["latest"], "2026-11-25T08:00:00Z")

    def test_what_huge_pages_would_save(self) -> None:
        rows = {row["engine"]: row for row in self.ask("page-tables")}
        self.assertEqual(rows["oracle"]["without_huge_pages"], 2)
        self.assertEqual(rows["oracle"]["saved_bytes"], 2 * GIB // 2)
        self.assertEqual(rows["oracle"]["saved_at_max_sessions_bytes"], 2 * 4 * GIB)
        self.assertEqual(rows["mysql"]["saved_at_max_sessions_bytes"], 5 * GIB)
        # It is on base pages, and no pool could hold anything of it.
        self.assertEqual((rows["redis"]["without_huge_pages"], rows["redis"]["saved_bytes"]), (0, 0))

    def test_who_is_worse_off_after_the_next_start(self) -> None:
        told = [(row["host"], row["moment"], row["state_then"]) for row in self.ask("next-start")]
        self.assertEqual(
            told,
            [
                ("db1", "reboot", "does_not_start"),
                ("db1", "restart", "does_not_start"),
                ("db3", "reboot", "none"),
                ("db4", "reboot", "none"),
            ],
        )

    def test_pools_that_are_idle_or_short(self) -> None:
        told = {row["host"]: row for row in self.ask("pools")}
        self.assertEqual({host: row["verdict"] for host, row in told.items()}, {"db1": "short", "db2": "short", "db4": "idle"})
        self.assertEqual(told["db4"]["idle_bytes"], 15360 * (2 << 20))

    def test_a_pool_of_a_server_that_is_stopped_is_not_idle(self) -> None:
        self._rewrite("instances", "* REPLACE (demand_pages * 4 AS demand_pages)")
        self.assertNotIn("idle", {row["verdict"] for row in self.ask("pools")})

    def test_the_host_that_is_set_up_otherwise(self) -> None:
        told = [(row["host"], row["line"], row["value"], row["usual_value"]) for row in self.ask("drift")]
        self.assertIn(("db4", "thp_enabled", "always", "never"), told)
        self.assertNotIn("solo", {host for host, *_ in told})

    def test_members_of_a_cluster_whose_instances_have_numbers(self) -> None:
        self._rewrite("instances", "* REPLACE (if(instance = 'RAC3', 'try', asked) AS asked, if(instance = 'RAC2', 65536, NULL) AS memlock_bytes)")
        told = [(row["host"], row["line"], row["value"], row["usual_value"]) for row in self.ask("drift")]
        self.assertIn(("db3", "oracle RAC asks", "try", "must"), told)
        self.assertIn(("db2", "oracle RAC memlock_bytes", "65536", ""), told)
        # Two of one name on a host are told apart by their numbers.
        self._rewrite("instances", "* REPLACE (if(capture IN ('c3', 'c4'), 'c3', capture) AS capture)")
        self.assertNotIn("oracle RAC asks", {row["line"] for row in self.ask("drift") if row["host"] == "db3"})

    def test_two_members_that_differ_are_both_told(self) -> None:
        self._rewrite("hosts", "* REPLACE (if(host IN ('db3', 'db4'), 'pair', cluster) AS cluster)")
        told = [(row["cluster"], row["host"], row["value"], row["usual_value"]) for row in self.ask("drift") if row["line"] == "thp_enabled"]
        self.assertEqual(told, [("pair", "db3", "never", "always"), ("pair", "db4", "always", "never")])

    def test_cases_that_were_opened_and_closed(self) -> None:
        told = [(row["change"], row["host"], row["code"]) for row in self.ask("changes")]
        self.assertEqual(
            told,
            [
                ("reopened", "db2", "HW201"),
                ("opened", "db1", "HW201"),
                ("not known", "db3", "HW101"),
                ("closed", "db1", "HW401"),
            ],
        )

    def test_whether_a_short_pool_can_grow(self) -> None:
        # Both lack 10 GiB and have 16 GiB available; the second has room for one page less than it lacks.
        told = [(row["host"], row["missing_pages"], row["can_grow"].split(":")[0]) for row in self.ask("growth")]
        self.assertEqual(told, [("db1", 5120, "now"), ("db2", 5120, "fragmented")])
        less = question("growth").sql.replace("memory_available_bytes >=", "1 >=").replace("memory_available_bytes <", "1 <")
        told = [row["can_grow"] for row in self.engine.rows(less)]
        self.assertEqual(told, ["now", "no: the memory is in use"])

    def test_no_wave_has_two_members_of_a_cluster(self) -> None:
        rows = self.ask("waves")
        members = [(row["wave"], row["cluster"]) for row in rows if row["cluster"]]
        self.assertEqual(len(members), len(set(members)))
        # One does not start; two fall back at the next boot, and one of these has an idle pool; one saves page tables.
        order = [(1, "db1"), (1, "solo"), (1, "/captures/nameless"), (2, "db4"), (3, "db3"), (4, "db2")]
        self.assertEqual([(row["wave"], row["host"]) for row in rows], order)
        told = {row["host"]: row for row in rows}
        self.assertEqual((told["db1"]["servers_that_will_not_start"], told["db1"]["servers_that_will_fall_back"]), (1, 0))
        self.assertEqual((told["db4"]["servers_that_will_fall_back"], told["db4"]["idle_pool_bytes"]), (1, 15360 * (2 << 20)))
        self.assertEqual((told["db2"]["page_tables_saved_bytes"], told["db2"]["idle_pool_bytes"]), (4 * GIB, 0))

    def test_members_of_a_cluster_that_froze_together(self) -> None:
        told = [
            (row["hour"], row["cluster"], row["incidents"], row["hosts"], row["members_frozen_together"]) for row in self.ask("incidents")
        ]
        self.assertEqual(
            told, [("2026-11-25T08:00:00Z", "rac", 3, 3, 2), ("2026-11-25T09:00:00Z", "", 1, 1, 0)]
        )

    def test_causes_and_failures(self) -> None:
        causes = [(cause["code"], cause["cases"], cause["hosts"]) for cause in self.ask("causes")]
        self.assertEqual(causes, [("HW201", 2, 2), ("HW501", 1, 1)])

    def test_what_failed_is_named_and_who_came_later_is_not_missing(self) -> None:
        told = [(row["class"], row["captures"], row["example"], row["message"]) for row in self.ask("failures")]
        self.assertEqual(
            told,
            [
                ("not_a_capture", 2, "a.txt", "z"),
                ("absent", 1, "db9", "no capture"),
                ("stale", 1, "solo", "old"),
                ("torn", 1, "torn.tar", "ends"),
            ],
        )
        told = [(row["class"], row["path"], row["times"]) for row in self.ask("failed")]
        self.assertEqual(
            told,
            [("absent", "db9", 2), ("not_a_capture", "a.txt", 1), ("not_a_capture", "b.txt", 1), ("stale", "solo", 1), ("torn", "torn.tar", 1)],
        )

    def test_faces(self) -> None:
        answers = report.answers(self.engine)
        self.assertEqual([one["name"] for one in json.loads(report.as_json(answers))["questions"]], [one.name for one in all_questions()])
        page = report.as_page(answers, "<script>")
        self.assertNotIn("<script>", page)
        self.assertIn("30.0 GiB", report.as_text(answers))
        target = Path(self.lake) / "page.html"
        self.assertEqual(cli.main(["report", self.lake, "--format", "html", "--out", str(target)]), 0)
        self.assertEqual(target.stat().st_mode & 0o077, 0)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(cli.main(["report", self.lake, "--out", "/nowhere/page.html"]), 2)
        self.assertEqual(said.getvalue(), "hugewise-fleet: /nowhere/page.html cannot be written: No such file or directory\n")

    def test_each_host_is_a_link_to_its_own_page(self) -> None:
        target = Path(self.lake) / "page.html"
        asked = ["report", self.lake, "--format", "html", "--out", str(target)]
        self.assertEqual(cli.main([*asked, "--pages", "pages/{host}.html"]), 0)
        self.assertIn('<a href="pages/db1.html">db1</a>', target.read_text())
        self.assertEqual(cli.main(asked), 0)
        self.assertNotIn("pages/", target.read_text())
        rows = [{"host": host} for host in ("../../x", "..", 'a" onclick="b', "")]
        page = report.as_page([(question("drift"), rows)], "lake", "pages/{host}/")
        self.assertEqual(re.findall('<td[^>]*>(?:<a href="([^"]*)">)?', page), ["pages/..%2F..%2Fx/", "", "pages/a%22%20onclick%3D%22b/", ""])
        for wrong, why in (("pages/", "has no {host}"), ("{host}", "--format html")):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                face = "html" if wrong == "pages/" else "text"
                self.assertEqual(cli.main(["report", self.lake, "--format", face, "--pages", wrong]), 2)
            self.assertIn(why, said.getvalue())

    def test_what_a_host_wrote_cannot_move_the_cursor(self) -> None:
        self.assertEqual(report.shown("host", "db\x1b[2J\n1"), "db\ufffd[2J 1")
        self.assertEqual(len(report.shown("summary", "x" * 100_000)), report.LONGEST_TEXT)

    def test_a_terminal_without_a_letter(self) -> None:
        terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        with contextlib.redirect_stdout(terminal):
            self.assertEqual(cli.main(["report", self.lake]), 0)

    def test_a_folder_of_any_name(self) -> None:
        odd = Path(self.lake).parent / "it's [a] lake*?"
        os.rename(self.lake, odd)
        self.assertEqual(DuckDb(str(odd)).rows("SELECT count(*) AS n FROM hosts"), [{"n": 6}])

    def test_tables_that_cannot_be_read_are_said(self) -> None:
        [part] = Path(self.lake).glob("cases/*/*/*.parquet")
        part.write_bytes(b"no table")
        with self.assertRaisesRegex(LakeError, "cannot be read"):
            report.answers(DuckDb(self.lake))
        self.assertEqual(cli.main(["report", self.lake]), 2)
        self.assertEqual(cli.main(["report", "s3://bucket/lake"]), 2)

    def test_a_folder_that_is_no_lake(self) -> None:
        with tempfile.TemporaryDirectory() as empty, self.assertRaises(LakeError):
            DuckDb(empty)
        self.assertEqual(cli.main(["report", "/nowhere"]), 2)

    def test_tables_that_are_not_there_are_empty(self) -> None:
        for gone in (("moments", "cases", "failures", "pools", "instances"), ("hosts", "incidents")):
            for table in gone:
                os.rename(Path(self.lake) / table, Path(self.lake) / f"_{table}")
            if "hosts" in gone:
                os.rename(Path(self.lake) / "_failures", Path(self.lake) / "failures")
            engine = DuckDb(self.lake)
            for one in all_questions():
                self.assertIsInstance(engine.rows(one.sql), list, one.name)
        # Of captures that all failed there is a table of failures alone.
        self.assertEqual([row["hosts"] for row in engine.rows(question("totals").sql)], [0])
        self.assertIn("a.txt", report.as_text(report.answers(engine)))

    def test_a_column_that_an_older_hugewise_did_not_write_is_null(self) -> None:
        self._rewrite("pools", "* EXCLUDE (room_pages)")
        self.assertEqual([row["can_grow"] for row in self.ask("growth")], ["not known", "not known"])

    def _rewrite(self, table: str, columns: str) -> None:
        [part] = Path(self.lake).glob(f"{table}/*/*/*.parquet")
        duckdb.sql(f"COPY (SELECT {columns} FROM read_parquet('{part}', hive_partitioning = false)) TO '{part}.new' (FORMAT parquet)")
        os.replace(f"{part}.new", part)
        self.engine = DuckDb(self.lake)

    def test_spark_submit_runs_a_file_by_itself(self) -> None:
        package = Path(cli.__file__).parent
        command = [sys.executable, "-B", str(package / "__main__.py"), "ask", self.lake, "totals"]
        ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(package.parent)}, capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    @unittest.skipUnless(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    def test_what_spark_fails_with_is_one_sentence(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(cli.main(["report", "s3a://bucket/lake", "--engine", "local[1]"]), 2)
        self.assertIn("hugewise-fleet: Spark did not read s3a://bucket/lake: ", said.getvalue())
        self.assertIn("S3AFileSystem not found", said.getvalue())
        self.assertNotIn("Traceback", said.getvalue())

    @unittest.skipUnless(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    def test_spark_gives_the_same_rows(self) -> None:
        spark = Spark(self.lake, "local[1]")
        self._same_rows(spark)

    @unittest.skipUnless(importlib.util.find_spec("pyspark"), "pyspark is not installed")
    def test_spark_has_empty_tables_too(self) -> None:
        for table in ("failures", "cases"):
            os.rename(Path(self.lake) / table, Path(self.lake) / f"_{table}")
        self.engine = DuckDb(self.lake)
        self._same_rows(Spark(self.lake, "local[1]"))

    @unittest.skipUnless(importlib.util.find_spec("pyspark") and os.environ.get("HUGEWISE_PROGRAM"), "pyspark or HUGEWISE_PROGRAM is missing")
    def test_captures_that_spark_reads_make_the_tables_that_collect_makes(self) -> None:
        root = Path(self._folder.name)
        given, one, two = root / "captures", root / "one", root / "two"
        given.mkdir()
        for number in range(6):
            # Two names of the same capture, which are in two partitions or in one.
            (given / f"host{number}.tar.gz").write_bytes(lake.capture(f"db{number % 5}"))
        (given / "torn.tar.gz").write_bytes(lake.capture("torn")[:150])
        (given / "none.tar.gz").write_bytes(b"no capture")
        program = os.environ["HUGEWISE_PROGRAM"]
        (root / "clusters").write_text("db1 other\n", encoding="utf-8")
        labels = ["--label", "rac", "--clusters", str(root / "clusters")]
        subprocess.run([program, "collect", str(given), "--out", str(one), *labels], check=False, capture_output=True)
        # What Spark cannot hold ends nothing.
        with (given / "large.tar").open("wb") as large:
            large.truncate(reading.LARGEST + 1)
        spark = reading.session("local[2]")
        self.assertEqual([path.rsplit("/", 1)[1] for path in reading.too_large(spark, str(given))], ["large.tar"])
        for expected in (5, None):
            written = reading.collect(spark, str(given), str(two), program, "rac", 3, "db1 other\n")
            self.assertEqual(written.get("hosts"), expected, "what is there already is not written again")
        for name in ("totals", "page-tables", "next-start", "pools", "causes", "waves"):
            rows = [DuckDb(str(each)).rows(question(name).sql) for each in (one, two)]
            self.assertEqual(rows[0], rows[1], name)
        known = [DuckDb(str(each)).rows("SELECT host, cluster FROM hosts ORDER BY host") for each in (one, two)]
        self.assertEqual(known[0], known[1])
        self.assertEqual([row["cluster"] for row in known[0]], ["rac", "other", "rac", "rac", "rac"])
        failed = [DuckDb(str(each)).rows("SELECT class, count(*) AS n FROM failures GROUP BY class") for each in (one, two)]
        self.assertEqual(failed[0], failed[1])
        self.assertEqual(sum(row["n"] for row in failed[0]), 2)
        for captures, program, told in ((given, "/nowhere/hugewise", "name it with --program"), ("/nowhere", program, "/nowhere")):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                command = ["collect", str(captures), str(two), "--engine", "local[2]", "--program", program, *labels]
                self.assertEqual(cli.main(command), 2)
            self.assertIn(told, said.getvalue())
            self.assertNotIn("Traceback", said.getvalue())
        self.assertEqual(list(two.glob("_staging*")), [])

    def _same_rows(self, spark: Spark) -> None:
        for one in all_questions():
            self.assertEqual(spark.rows(one.sql), self.engine.rows(one.sql), one.name)


if __name__ == "__main__":
    unittest.main()
