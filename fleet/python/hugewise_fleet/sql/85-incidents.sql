-- Incidents by hour, and how many members of a cluster froze together.
WITH latest AS (
    -- An archive that has grown tells its last day again.
    SELECT coalesce(cluster, '') AS cluster, coalesce(host, '') AS host, day, max(captured_at) AS captured_at
    FROM incidents GROUP BY coalesce(cluster, ''), coalesce(host, ''), day
),
known AS (
    SELECT latest.cluster AS cluster, latest.host AS host, verdict, began_at, max(ended_at) AS ended_at
    FROM incidents
    JOIN latest ON latest.cluster = coalesce(incidents.cluster, '') AND latest.host = coalesce(incidents.host, '')
        AND latest.day = incidents.day AND latest.captured_at = incidents.captured_at
    GROUP BY latest.cluster, latest.host, verdict, began_at
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
