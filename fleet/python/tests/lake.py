"""A small lake, made without hugewise: what each question must say of it is counted by hand."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import duckdb

GIB = 1 << 30
WHO = "1 AS schema_version, '{capture}' AS capture, {host} AS host, {cluster} AS cluster, TIMESTAMPTZ '{at}' AS captured_at"
BEFORE, NOW, LATER = "2026-11-01 08:00:00+00", "2026-11-25 08:00:00+00", "2026-11-25 09:00:00+00"


def make(folder: Path) -> Path:
    """Four members of one cluster, three of them captured more than once, a host of none, and one without a name, captured twice."""
    tables: dict[str, list[str]] = {
        name: [] for name in ("hosts", "pools", "instances", "moments", "cases", "incidents", "failures")
    }
    for number in range(1, 5):
        _member(tables, number)
    _host(tables, "old", "'db1'", "'rac'", BEFORE, "never", 9)
    _case(tables, "old", "'db1'", "'rac'", BEFORE, "HW401", "setting")
    # The second is as ill as it was two captures ago; the one between them says nothing wrong.
    for capture, at in (("older2", "2026-10-01 08:00:00+00"), ("old2", BEFORE)):
        _host(tables, capture, "'db2'", "'rac'", at, "never", 9)
    _case(tables, "older2", "'db2'", "'rac'", "2026-10-01 08:00:00+00", "HW201", "no-pool")
    # The third's clock was in another century once. Its latest capture lacks facts, and cannot tell what ended.
    _host(tables, "future3", "'db3'", "'rac'", "2199-01-01 00:00:00+00", "always", 9)
    _host(tables, "old3", "'db3'", "'rac'", BEFORE, "never", 9)
    _case(tables, "old3", "'db3'", "'rac'", BEFORE, "HW101", "page-tables-heavy")
    # The fourth's latest is torn, and has lost what its processes would say.
    _host(tables, "torn4", "'db4'", "'rac'", LATER, "never", 1)
    # A host without a name is known by its path, and has the same case in both captures.
    for capture, at in (("n1", BEFORE), ("n2", NOW)):
        _host(tables, capture, "NULL::VARCHAR", "NULL::VARCHAR", at, "never", 0, "/captures/nameless")
        _case(tables, capture, "NULL::VARCHAR", "NULL::VARCHAR", at, "HW501", "thp")
    _host(tables, "solo", "'solo'", "NULL", NOW, "always", 1)
    _instance(tables, "solo", "'solo'", "NULL", NOW, "mysql", "3306", "none", "no", 0, 5)
    _instance(tables, "solo", "'solo'", "NULL", NOW, "redis", "6379", "none", "cannot", 0, 0)
    # Nobody knows whether a server asks for what its host's idle pool has not.
    _instance(tables, "solo", "'solo'", "NULL", NOW, "jvm", "app.jar", "unknown", "unknown", 9000, 0)
    _pool(tables, WHO.format(capture="solo", host="'solo'", cluster="NULL::VARCHAR", at=NOW), 16, 16, 0)
    # The last three are there again, or have a later capture.
    for capture, host, at, path, failure, message in (
        ("x1", "NULL", "NULL", "torn.tar", "torn", "ends"),
        ("x2", "NULL", "NULL", "a.txt", "not_a_capture", "z"),
        ("x3", "NULL", "NULL", "b.txt", "not_a_capture", "a"),
        ("x4", "'db9'", "NULL", "db9", "absent", "no capture"),
        ("x5", "'db9'", "NULL", "db9", "absent", "no capture"),
        ("x6", "'solo'", f"TIMESTAMPTZ '{NOW}'", "solo", "stale", "old"),
        ("x7", "'DB4.example.org'", "NULL", "DB4.example.org", "absent", "no capture"),
        ("x8", "'db4'", "NULL", "db4", "absent", "no capture"),
        ("x9", "'db1'", f"TIMESTAMPTZ '{BEFORE}'", "db1", "stale", "old"),
    ):
        tables["failures"].append(
            f"1 AS schema_version, '{capture}' AS capture, {host}::VARCHAR AS host, NULL::VARCHAR AS cluster, {at}::TIMESTAMPTZ AS captured_at, "
            f"'{path}' AS path, '{failure}' AS class, '{message}' AS message, TIMESTAMPTZ '{LATER}' AS failed_at"
        )
    # Two members freeze together, a third later in the hour; the first is told again, a little otherwise, by an archive that had grown.
    for capture, host, cluster, began, ended in (
        ("i1", "'db1'", "'rac'", "08:09:50", "08:12:00"),
        ("i1b", "'db1'", "'rac'", "08:10:00", "08:21:00"),
        ("i2", "'db2'", "'rac'", "08:15:00", "08:25:00"),
        ("i3", "'db3'", "'rac'", "08:30:00", "08:31:00"),
        ("i4", "'solo'", "NULL", "09:00:00", "09:01:00"),
    ):
        tables["incidents"].append(
            WHO.format(capture=capture, host=host, cluster=cluster, at="2026-11-25 08:12:00+00" if capture == "i1" else "2026-11-25 23:59:00+00")
            + f", TIMESTAMPTZ '2026-11-25 {began}+00' AS began_at, TIMESTAMPTZ '2026-11-25 {ended}+00' AS ended_at, "
            "'reclaim-storm' AS verdict, 'high' AS confidence, 'x' AS summary"
        )
    db = duckdb.connect()
    for name, rows in tables.items():
        part = folder / name / "day=2026-11-25" / "bucket=00"
        part.mkdir(parents=True)
        db.execute(f"COPY ({' UNION ALL '.join('SELECT ' + row for row in rows)}) TO '{part}/part-0.parquet' (FORMAT parquet)")
    return folder


def _member(tables: dict[str, list[str]], number: int) -> None:
    who = (f"c{number}", f"'db{number}'", "'rac'", NOW)
    # The fourth is set up otherwise.
    _host(tables, *who, "always" if number == 4 else "never", 8)
    on = "none" if number <= 2 else "all"
    _instance(tables, *who, "oracle", f"RAC{number}", on, "must", 5120, 4 if number <= 2 else 0)
    who_sql = WHO.format(capture=who[0], host=who[1], cluster=who[2], at=who[3])
    total, free = (0, 0) if number <= 2 else (5120, 0)
    if number == 4:
        total, free = 20480, 15360
    _pool(tables, who_sql, total, free, 6000 if number == 1 else 5119)
    states = {1: ("none", "does_not_start", "does_not_start"), 2: ("none", "none", "none")}
    for moment, state in zip(("now", "restart", "reboot"), states.get(number, ("all", "all", "none"))):
        tables["moments"].append(
            f"{who_sql}, 'oracle' AS engine, 'RAC{number}' AS instance, '{moment}' AS moment, '{state}' AS state, NULL::VARCHAR AS why"
        )
    if number <= 2:
        _case(tables, *who, "HW201", "no-pool")


def _pool(tables: dict[str, list[str]], who_sql: str, total: int, free: int, room: int) -> None:
    tables["pools"].append(
        f"{who_sql}, {2 << 20}::BIGINT AS page_bytes, NULL::BIGINT AS node, {total}::BIGINT AS total_pages, "
        f"{free}::BIGINT AS free_pages, 0::BIGINT AS reserved_pages, 0::BIGINT AS surplus_pages, {room}::BIGINT AS room_pages"
    )


def _host(tables: dict[str, list[str]], capture: str, host: str, cluster: str, at: str, thp: str, tables_gib: int, path: str = "") -> None:
    tables["hosts"].append(
        WHO.format(capture=capture, host=host, cluster=cluster, at=at)
        + f", '{path or '/captures/' + capture}' AS path, 'Oracle Linux 9' AS os, '5.15' AS kernel, '{thp}' AS thp_enabled, "
        f"'madvise' AS thp_defrag, {2 << 20}::BIGINT AS default_huge_page_bytes, {64 * GIB}::BIGINT AS memory_bytes, "
        f"0::BIGINT AS swap_total_bytes, {tables_gib * GIB}::BIGINT AS page_tables_bytes, 1::BIGINT AS instances, "
        f"1::BIGINT AS errors, 0::BIGINT AS warnings, {int(capture == 'c3')}::BIGINT AS undecided_rules, 0::BIGINT AS unread_facts, "
        f"{16 * GIB}::BIGINT AS memory_available_bytes, {8 * GIB}::BIGINT AS memory_free_bytes, "
        f"{repr('ends early') if capture == 'torn4' else 'NULL'}::VARCHAR AS torn"
    )


def _instance(
    tables: dict[str, list[str]], capture: str, host: str, cluster: str, at: str,
    engine: str, name: str, on: str, asked: str, pages: int, saved_gib: int,
) -> None:  # fmt: skip
    tables["instances"].append(
        WHO.format(capture=capture, host=host, cluster=cluster, at=at)
        + f", '{engine}' AS engine, '{name}' AS instance, true AS running, '19.21' AS version, '{asked}' AS asked, "
        f"NULL::VARCHAR AS setting, '{on}' AS huge_pages, {2 << 20}::BIGINT AS demand_page_bytes, {pages}::BIGINT AS demand_pages, "
        f"{GIB}::BIGINT AS page_tables_bytes, 100::BIGINT AS sessions, {GIB // 2 if saved_gib else 0}::BIGINT AS saved_bytes, "
        f"{saved_gib * GIB}::BIGINT AS saved_at_max_bytes, NULL::BIGINT AS memlock_bytes"
    )


def _case(tables: dict[str, list[str]], capture: str, host: str, cluster: str, at: str, code: str, name: str) -> None:
    tables["cases"].append(
        WHO.format(capture=capture, host=host, cluster=cluster, at=at)
        + f", 'error' AS level, '{code}' AS code, '{name}' AS name, NULL::VARCHAR AS instance_title, 'It is so.' AS summary"
    )


def capture(host: str) -> bytes:
    """A host with three files, as `hugewise capture` packs it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, text in (
            ("etc/hostname", f"{host}\n"),
            ("proc/meminfo", "MemTotal: 1048576 kB\nPageTables: 1024 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n"),
            ("proc/sys/kernel/hostname", f"{host}\n"),
        ):
            info = tarfile.TarInfo(f"hugewise-capture/{path}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()
