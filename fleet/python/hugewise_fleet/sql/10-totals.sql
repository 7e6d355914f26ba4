-- The fleet in one row.
SELECT
    count(*) AS hosts,
    sum(memory_bytes) AS memory_bytes,
    sum(page_tables_bytes) AS page_tables_bytes,
    sum(instances) AS instances,
    sum(CASE WHEN errors > 0 THEN 1 ELSE 0 END) AS hosts_with_errors,
    sum(CASE WHEN errors = 0 AND warnings > 0 THEN 1 ELSE 0 END) AS hosts_with_warnings,
    sum(CASE WHEN unread_facts > 0 OR torn IS NOT NULL THEN 1 ELSE 0 END) AS hosts_not_read_whole,
    min(captured_at) AS oldest,
    max(captured_at) AS latest
FROM hosts
