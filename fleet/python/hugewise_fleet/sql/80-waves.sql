-- Hosts to change first, in waves that never contain two members of one cluster.
WITH gain AS (
    SELECT capture, sum(coalesce(saved_at_max_bytes, 0)) AS saved_at_max_sessions_bytes FROM instances GROUP BY capture
),
risk AS (
    SELECT capture, count(DISTINCT concat(engine, ' ', instance)) AS at_risk
    FROM moments WHERE moment IN ('restart', 'reboot') AND state = 'does_not_start' GROUP BY capture
),
ranked AS (
    SELECT
        hosts.cluster AS cluster,
        coalesce(hosts.host, hosts.path) AS host,
        coalesce(gain.saved_at_max_sessions_bytes, 0) AS saved_at_max_sessions_bytes,
        coalesce(risk.at_risk, 0) AS servers_that_will_not_start,
        hosts.errors AS errors
    FROM hosts
    LEFT JOIN gain ON gain.capture = hosts.capture
    LEFT JOIN risk ON risk.capture = hosts.capture
    WHERE coalesce(gain.saved_at_max_sessions_bytes, 0) > 0 OR coalesce(risk.at_risk, 0) > 0
)
SELECT
    -- A host of no cluster waits for nobody.
    CASE WHEN cluster IS NULL THEN 1
        ELSE row_number() OVER (PARTITION BY cluster ORDER BY servers_that_will_not_start DESC, saved_at_max_sessions_bytes DESC, host)
        END AS wave,
    coalesce(cluster, '') AS cluster,
    host,
    servers_that_will_not_start,
    saved_at_max_sessions_bytes,
    errors
FROM ranked
ORDER BY wave, servers_that_will_not_start DESC, saved_at_max_sessions_bytes DESC, cluster, host
