-- Hosts that are set up differently from others in their cluster (collect --clusters).
WITH named AS (
    -- Members of a cluster call their instances of one database PROD1 and PROD2.
    SELECT *, CASE WHEN engine = 'oracle' THEN regexp_replace(instance, '[0-9]+$', '') ELSE instance END AS database
    FROM instances
),
servers AS (
    SELECT
        capture,
        cluster,
        concat(engine, ' ', CASE WHEN count(*) OVER (PARTITION BY capture, engine, database) = 1 THEN database ELSE instance END) AS server,
        asked,
        coalesce(version, '') AS version,
        -- Null is no limit, or not known.
        coalesce(CAST(memlock_bytes AS STRING), '') AS memlock
    FROM named
),
lines AS (
    SELECT capture, cluster, 'kernel' AS line, coalesce(kernel, '') AS value FROM hosts
    UNION ALL SELECT capture, cluster, 'thp_enabled', coalesce(thp_enabled, '') FROM hosts
    UNION ALL SELECT capture, cluster, 'thp_defrag', coalesce(thp_defrag, '') FROM hosts
    UNION ALL SELECT capture, cluster, 'default_huge_page_bytes', coalesce(CAST(default_huge_page_bytes AS STRING), '') FROM hosts
    UNION ALL SELECT capture, cluster, 'swap', CASE WHEN swap_total_bytes > 0 THEN 'yes' ELSE 'no' END FROM hosts
    UNION ALL SELECT capture, cluster, concat('pool of ', CAST(page_bytes AS STRING), ' bytes'),
        CAST(total_pages AS STRING) FROM pools WHERE node IS NULL
    UNION ALL SELECT capture, cluster, concat(server, ' asks'), asked FROM servers
    UNION ALL SELECT capture, cluster, concat(server, ' version'), version FROM servers
    UNION ALL SELECT capture, cluster, concat(server, ' memlock_bytes'), memlock FROM servers
),
counted AS (
    SELECT cluster, line, value, count(*) AS hosts, sum(count(*)) OVER (PARTITION BY cluster, line) AS of_hosts
    FROM lines WHERE cluster IS NOT NULL GROUP BY cluster, line, value
),
-- Of two members that differ, each is told with the other's value.
usual AS (
    SELECT cluster, line, value FROM counted WHERE (2 * hosts > of_hosts AND of_hosts >= 3) OR (hosts = 1 AND of_hosts = 2)
)
SELECT
    lines.cluster AS cluster,
    captures.who AS host,
    lines.line AS line,
    lines.value AS value,
    usual.value AS usual_value
FROM lines JOIN usual ON usual.cluster = lines.cluster AND usual.line = lines.line
JOIN captures ON captures.capture = lines.capture
WHERE lines.value <> usual.value AND NOT (lines.line LIKE '% memlock_bytes' AND lines.value = '')
ORDER BY cluster, line, host
