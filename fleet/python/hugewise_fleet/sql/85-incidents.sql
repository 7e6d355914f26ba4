-- Incidents by hour, and how many members of a cluster froze together.
WITH known AS (
    -- An archive that has grown tells the incidents of its last day again.
    SELECT coalesce(cluster, '') AS cluster, coalesce(host, '') AS host, verdict, began_at, max(ended_at) AS ended_at
    FROM incidents GROUP BY coalesce(cluster, ''), coalesce(host, ''), verdict, began_at
),
hours AS (
    SELECT date_trunc('hour', began_at) AS hour, cluster, verdict, count(*) AS incidents, count(DISTINCT host) AS hosts
    FROM known GROUP BY date_trunc('hour', began_at), cluster, verdict
),
together AS (
    SELECT date_trunc('hour', one.began_at) AS hour, one.cluster AS cluster, one.verdict AS verdict, count(DISTINCT one.host) AS hosts
    FROM known AS one
    JOIN known AS other ON other.cluster = one.cluster AND other.host <> one.host AND one.cluster <> ''
        AND other.began_at <= one.ended_at AND one.began_at <= other.ended_at
    GROUP BY date_trunc('hour', one.began_at), one.cluster, one.verdict
)
SELECT
    hours.hour AS hour,
    hours.cluster AS cluster,
    hours.verdict AS verdict,
    hours.incidents AS incidents,
    hours.hosts AS hosts,
    coalesce(together.hosts, 0) AS members_frozen_together
FROM hours
LEFT JOIN together ON together.hour = hours.hour AND together.cluster = hours.cluster AND together.verdict = hours.verdict
ORDER BY incidents DESC, hour, cluster, verdict
