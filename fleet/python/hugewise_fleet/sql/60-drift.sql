-- Hosts that are set up differently from most of their cluster (collect --label).
WITH lines AS (
    SELECT capture, cluster, host, 'kernel' AS line, coalesce(kernel, '') AS value FROM hosts
    UNION ALL SELECT capture, cluster, host, 'thp_enabled', coalesce(thp_enabled, '') FROM hosts
    UNION ALL SELECT capture, cluster, host, 'thp_defrag', coalesce(thp_defrag, '') FROM hosts
    UNION ALL SELECT capture, cluster, host, 'default_huge_page_bytes',
        coalesce(CAST(default_huge_page_bytes AS VARCHAR(20)), '') FROM hosts
    UNION ALL SELECT capture, cluster, host, 'swap', CASE WHEN swap_total_bytes > 0 THEN 'yes' ELSE 'no' END FROM hosts
    UNION ALL SELECT capture, cluster, host, concat('pool of ', CAST(page_bytes AS VARCHAR(20)), ' bytes'),
        CAST(total_pages AS VARCHAR(20)) FROM pools WHERE node IS NULL
    UNION ALL SELECT capture, cluster, host, concat(engine, ' ', instance, ' asks'), asked FROM instances
    UNION ALL SELECT capture, cluster, host, concat(engine, ' ', instance, ' version'), coalesce(version, '') FROM instances
),
counted AS (
    SELECT cluster, line, value, count(*) AS hosts, sum(count(*)) OVER (PARTITION BY cluster, line) AS of_hosts
    FROM lines WHERE cluster IS NOT NULL GROUP BY cluster, line, value
),
usual AS (
    SELECT cluster, line, value FROM counted WHERE 2 * hosts > of_hosts AND of_hosts >= 3
)
SELECT
    lines.cluster AS cluster,
    captures.who AS host,
    lines.line AS line,
    lines.value AS value,
    usual.value AS usual_value
FROM lines JOIN usual ON usual.cluster = lines.cluster AND usual.line = lines.line
JOIN captures ON captures.capture = lines.capture
WHERE lines.value <> usual.value
ORDER BY cluster, line, host
