"""Engines that run the SQL: DuckDB in this process, or Apache Spark.

Both see the same views. `all_hosts`, `all_pools` ... have every capture; `hosts`, `pools` ... have the latest capture of each
host, and `before_hosts`, `before_cases` ... the one before it; `captures` says of each capture whose it is. A table that the lake does not have yet is empty.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any, Protocol

from .tables import TABLES, LakeError

VERSION = 1


class Engine(Protocol):
    """Something that runs SQL over a lake."""

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The answer's rows, a value by each column's name."""


class DuckDb:
    """DuckDB, in this process and in memory."""

    def __init__(self, lake: str) -> None:
        import duckdb

        if "://" in lake:
            raise LakeError(f"DuckDB reads a folder, and {lake} is none: --engine spark reads object storage, or mount it")
        self._error = duckdb.Error
        self._db = duckdb.connect()
        self._run("SET TimeZone = 'UTC'")
        present = {table for table in TABLES if any(Path(lake).glob(f"{table}/*/*/*.parquet"))}
        for table in present:
            # What stands for other letters in a glob may stand in a folder's name.
            folder = re.sub(r"([*?\[])", r"[\1]", lake).replace("'", "''")
            source = f"read_parquet('{folder}/{table}/*/*/*.parquet', hive_partitioning = true, union_by_name = true)"
            self._run(f"CREATE VIEW all_{table} AS SELECT * FROM {source}")
        _prepare(lake, present, self._run, self.rows)

    def _run(self, sql: str) -> Any:
        try:
            return self._db.execute(sql)
        except self._error as error:
            raise LakeError(f"the tables cannot be read: {error}") from error

    def rows(self, sql: str) -> list[dict[str, Any]]:
        answer = self._run(sql)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, map(_plain, row))) for row in answer.fetchall()]


class Spark:
    """Apache Spark: `local[2]`, `spark://host:7077`, or a session that spark-submit made."""

    def __init__(self, lake: str, master: str | None) -> None:
        from pyspark.errors import AnalysisException

        from .reading import session

        self._spark = session(master)
        present = set()
        for table in TABLES:
            try:
                frame = self._spark.read.option("mergeSchema", "true").parquet(f"{lake.rstrip('/')}/{table}")
            except AnalysisException as error:
                # A table without a row has no folder.
                if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
                    raise LakeError(f"the tables cannot be read: {error}") from error
                continue
            frame.createOrReplaceTempView(f"all_{table}")
            present.add(table)
        _prepare(lake, present, self._view, self.rows)

    def _view(self, sql: str) -> None:
        self._spark.sql(sql.replace("CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        return [{name: _plain(value) for name, value in row.asDict().items()} for row in self._spark.sql(sql).collect()]


def open_engine(lake: str, engine: str) -> Engine:
    """DuckDB for `duckdb`; Spark for `spark` and for the address of a master."""
    return DuckDb(lake) if engine == "duckdb" else Spark(lake, None if engine == "spark" else engine)


def _prepare(lake: str, present: set[str], execute: Any, rows: Any) -> None:
    if "hosts" not in present:
        raise LakeError(f"{lake} has no table of hosts: hugewise collect PATH... --out {lake} writes one")
    versions = {row["schema_version"] for row in rows("SELECT DISTINCT schema_version FROM all_hosts")}
    if versions - {VERSION}:
        raise LakeError(f"{lake} has tables of version {max(versions)}, and this program knows {VERSION}: install a newer one")
    # A host without a name is known by the path of its capture.
    execute(
        "CREATE VIEW captures AS SELECT capture, coalesce(host, path) AS who, captured_at, row_number() OVER (PARTITION BY cluster, coalesce(host, path) "
        "ORDER BY captured_at DESC, capture) AS age FROM all_hosts"
    )
    for table in TABLES:
        if table not in present:
            continue
        # These are of no capture of a host.
        if table in ("incidents", "failures"):
            execute(f"CREATE VIEW {table} AS SELECT * FROM all_{table}")
            continue
        for view, age in ((table, 1), (f"before_{table}", 2)):
            of_age = f"SELECT capture FROM captures WHERE age = {age}"
            execute(f"CREATE VIEW {view} AS SELECT * FROM all_{table} WHERE capture IN ({of_age})")
    for table, columns in _EMPTY.items():
        if table not in present:
            nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns.items())
            for view in (f"all_{table}", table, f"before_{table}"):
                execute(f"CREATE VIEW {view} AS SELECT {nulls} WHERE false")


# The columns that questions ask of tables which a lake may lack: no host has a case, or none could not be read.
_TEXT, _NUMBER, _FLAG = "VARCHAR(255)", "BIGINT", "BOOLEAN"
_WHO = {"capture": _TEXT, "host": _TEXT, "cluster": _TEXT, "engine": _TEXT, "instance": _TEXT}
_EMPTY = {
    "pools": {
        **_WHO,
        **dict.fromkeys(("page_bytes", "node", "total_pages", "free_pages", "reserved_pages", "surplus_pages"), _NUMBER),
    },
    "instances": {
        **_WHO,
        **dict.fromkeys(("running",), _FLAG),
        **dict.fromkeys(("version", "asked", "setting", "huge_pages"), _TEXT),
        **dict.fromkeys(
            (
                "demand_page_bytes",
                "demand_pages",
                "page_tables_bytes",
                "sessions",
                "at_max_base_page_tables_bytes",
                "at_max_huge_page_tables_bytes",
            ),
            _NUMBER,
        ),
    },
    "moments": {**_WHO, **dict.fromkeys(("moment", "state", "why"), _TEXT)},
    "cases": {**_WHO, **dict.fromkeys(("level", "code", "name", "instance_title", "summary"), _TEXT)},
    "findings": {**_WHO, **dict.fromkeys(("level", "code", "name"), _TEXT)},
    "incidents": {
        **_WHO,
        **dict.fromkeys(("verdict", "confidence", "summary", "day"), _TEXT),
        **dict.fromkeys(("began_at", "ended_at", "captured_at"), "TIMESTAMP"),
    },
    "failures": {**_WHO, **dict.fromkeys(("path", "class", "message"), _TEXT)},
}


def _plain(value: Any) -> Any:
    """A value as JSON has it, the same from both engines."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return aware.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if hasattr(value, "as_tuple"):
        return int(value) if value == int(value) else float(value)
    return value
