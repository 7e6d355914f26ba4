"""Engines that run the SQL: DuckDB in this process, or Apache Spark.

Both see the same views. `all_hosts`, `all_pools` ... have every capture; `hosts`, `pools` ... have the latest whole capture of each
host, and `before_hosts`, `before_cases` ... the one before it; `captures` says of each capture whose it is, and `judged_pools` of each
pool whether it is idle or short. A table that the lake does not have yet is empty, and a column that an older hugewise did not write
is null.
"""

from __future__ import annotations

import datetime
import functools
import re
from pathlib import Path
from typing import Any, Protocol

from .tables import TABLES, LakeError

VERSION = 1


class Engine(Protocol):
    """Something that runs SQL over a lake."""

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The answer's rows, a value by each column's name."""

    def close(self) -> None:
        """Ends what it has started."""


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
            written = {column[0] for column in self._run(f"SELECT * FROM {source} LIMIT 0").description}
            nulls = "".join(f", CAST(NULL AS {kind}) AS {name}" for name, kind in _EMPTY[table].items() if name not in written)
            self._run(f"CREATE VIEW all_{table} AS SELECT *{nulls} FROM {source}")
        _prepare(lake, present, self._run, self.rows)

    def _run(self, sql: str) -> Any:
        try:
            return self._db.execute(sql)
        except self._error as error:
            first = str(error).split("\n", 1)[0]
            raise LakeError(f"the tables cannot be read: {first}") from error

    def rows(self, sql: str) -> list[dict[str, Any]]:
        answer = self._run(sql)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, map(_plain, row))) for row in answer.fetchall()]

    def close(self) -> None:
        self._db.close()


class Spark:
    """Apache Spark: `local[2]`, `spark://host:7077`, or a session that spark-submit made."""

    def __init__(self, lake: str, master: str | None) -> None:
        from pyspark.errors import AnalysisException

        from .reading import session, told

        self._told = functools.partial(told, f"Spark did not read {lake}")
        with self._told():
            self._spark = session(master)
        present = set()
        for table in TABLES:
            try:
                with self._told():
                    frame = self._spark.read.option("mergeSchema", "true").parquet(f"{lake.rstrip('/')}/{table}")
            except LakeError as error:
                # A table without a row has no folder.
                missing = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
                if isinstance(error.__cause__, AnalysisException) and error.__cause__.getCondition() in missing:
                    continue
                raise
            for name, kind in _EMPTY[table].items():
                if name not in frame.columns:
                    frame = frame.selectExpr("*", f"CAST(NULL AS {kind}) AS {name}")
            frame.createOrReplaceTempView(f"all_{table}")
            present.add(table)
        _prepare(lake, present, self._view, self.rows)

    def _view(self, sql: str) -> None:
        self._spark.sql(sql.replace("CREATE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with self._told():
            answer = self._spark.sql(sql).collect()
        return [{name: _plain(value) for name, value in row.asDict().items()} for row in answer]

    def close(self) -> None:
        # Executors that end before their driver does are missed and started anew.
        self._spark.stop()


def open_engine(lake: str, engine: str) -> Engine:
    """DuckDB for `duckdb`; Spark for `spark` and for the address of a master."""
    return DuckDb(lake) if engine == "duckdb" else Spark(lake, None if engine == "spark" else engine)


def _prepare(lake: str, present: set[str], execute: Any, rows: Any) -> None:
    if not present:
        raise LakeError(f"{lake} has no tables: hugewise collect PATH... --out {lake} writes them")
    versions = {row["schema_version"] for row in rows(" UNION ".join(f"SELECT schema_version FROM all_{table}" for table in sorted(present)))}
    if versions - {VERSION}:
        raise LakeError(f"{lake} has tables of version {max(versions)}, and this program knows {VERSION}: install a newer one")
    for table in set(_EMPTY) - present:
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in _EMPTY[table].items())
        execute(f"CREATE VIEW all_{table} AS SELECT {nulls} WHERE false")
    # A host without a name is known by the path of its capture. A capture that is torn, or from a clock that was ahead, is the
    # latest where there is no other: what it lacks would be missing from every sum.
    execute(
        "CREATE VIEW captures AS SELECT capture, coalesce(host, path) AS who, captured_at, row_number() OVER (PARTITION BY cluster, coalesce(host, path) "
        f"ORDER BY CASE WHEN {_FUTURE} OR torn IS NOT NULL THEN 1 ELSE 0 END, captured_at DESC, capture) AS age FROM all_hosts"
    )
    execute(_FAILURES)
    for table in TABLES:
        if table == "failures":
            continue
        # These are of no capture of a host.
        if table == "incidents":
            execute(f"CREATE VIEW {table} AS SELECT * FROM all_{table}")
            continue
        for view, age in ((table, 1), (f"before_{table}", 2)):
            of_age = f"SELECT capture FROM captures WHERE age = {age}"
            execute(f"CREATE VIEW {view} AS SELECT * FROM all_{table} WHERE capture IN ({of_age})")
    execute(_JUDGED_POOLS)


_FUTURE = "captured_at > current_timestamp + INTERVAL '1' DAY"

# A host that was missing is not any more once there is a capture of it. A name without a domain is anybody's of that name, as it
# is for collect --expect.
_FAILURES = f"""
CREATE VIEW failures AS
WITH seen AS (
    SELECT lower(host) AS name, max(captured_at) AS captured_at FROM all_hosts
    WHERE host IS NOT NULL AND NOT coalesce({_FUTURE}, false) GROUP BY lower(host)
),
names AS (
    SELECT name, max(captured_at) AS captured_at FROM (
        SELECT name, captured_at FROM seen UNION ALL SELECT split_part(name, '.', 1) AS name, captured_at FROM seen
    ) AS each_name GROUP BY name
)
SELECT one.* FROM all_failures AS one
LEFT JOIN seen AS whole ON whole.name = lower(one.host)
LEFT JOIN seen AS short ON short.name = split_part(lower(one.host), '.', 1)
LEFT JOIN names AS anybodys ON anybodys.name = lower(one.host) AND lower(one.host) NOT LIKE '%.%'
WHERE CASE one.class
    WHEN 'absent' THEN coalesce(whole.name, short.name, anybodys.name) IS NULL
    WHEN 'stale' THEN NOT coalesce(greatest(whole.captured_at, short.captured_at, anybodys.captured_at)
        > coalesce(one.captured_at, one.failed_at), false)
    ELSE true END
"""

# Several questions are about pools: what is short in one is so in all.
_JUDGED_POOLS = """
CREATE VIEW judged_pools AS
WITH demand AS (
    SELECT
        capture,
        demand_page_bytes AS page_bytes,
        sum(CASE WHEN asked <> 'unknown' OR huge_pages IN ('all', 'partly') THEN demand_pages ELSE 0 END) AS wanted_pages,
        -- With those of servers of which it is not known whether they ask.
        sum(demand_pages) AS at_most_pages
    FROM instances WHERE demand_pages IS NOT NULL AND asked <> 'no' AND asked <> 'cannot'
    GROUP BY capture, demand_page_bytes
),
pairs AS (
    SELECT
        pools.cluster AS cluster,
        pools.capture AS capture,
        pools.page_bytes AS page_bytes,
        pools.total_pages AS total_pages,
        pools.room_pages AS room_pages,
        pools.free_pages - coalesce(pools.reserved_pages, 0) AS unused_pages,
        coalesce(demand.wanted_pages, 0) AS wanted_pages,
        coalesce(demand.at_most_pages, 0) AS at_most_pages
    FROM pools LEFT JOIN demand ON demand.capture = pools.capture AND demand.page_bytes = pools.page_bytes
    WHERE pools.node IS NULL
)
SELECT
    cluster,
    capture,
    page_bytes,
    total_pages,
    room_pages,
    unused_pages,
    wanted_pages,
    CASE
        WHEN wanted_pages > total_pages THEN 'short'
        -- What a server that is stopped will need, or may ask for, is not idle.
        WHEN total_pages > 0 AND 2 * unused_pages >= total_pages AND 2 * at_most_pages <= total_pages THEN 'idle'
    END AS verdict
FROM pairs
"""

# The columns that questions ask, of tables which a lake may lack: no host has a case, or none could not be read.
_TEXT, _NUMBER, _FLAG = "STRING", "BIGINT", "BOOLEAN"
_WHO = {"capture": _TEXT, "host": _TEXT, "cluster": _TEXT, "engine": _TEXT, "instance": _TEXT}
_TIME = "TIMESTAMP"
_EMPTY = {
    "hosts": {
        **_WHO,
        **dict.fromkeys(("path", "os", "kernel", "thp_enabled", "thp_defrag", "torn"), _TEXT),
        **dict.fromkeys(
            (
                "default_huge_page_bytes",
                "memory_bytes",
                "memory_free_bytes",
                "memory_available_bytes",
                "swap_total_bytes",
                "page_tables_bytes",
                "instances",
                "errors",
                "warnings",
                "undecided_rules",
                "unread_facts",
            ),
            _NUMBER,
        ),
        "captured_at": _TIME,
    },
    "pools": {
        **_WHO,
        **dict.fromkeys(("page_bytes", "node", "total_pages", "free_pages", "reserved_pages", "surplus_pages", "room_pages"), _NUMBER),
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
                "saved_bytes",
                "saved_at_max_bytes",
                "memlock_bytes",
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
        **dict.fromkeys(("began_at", "ended_at", "captured_at"), _TIME),
    },
    "failures": {**_WHO, **dict.fromkeys(("path", "class", "message"), _TEXT), **dict.fromkeys(("captured_at", "failed_at"), _TIME)},
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
