-- Cases opened or closed since the previous capture.
WITH now_cases AS (
    SELECT captures.who AS who, captures.captured_at AS captured_at, coalesce(cases.cluster, '') AS cluster, cases.code AS code,
        cases.name AS name, coalesce(cases.instance_title, '') AS instance, cases.summary AS summary
    FROM cases JOIN captures ON captures.capture = cases.capture
),
earlier_cases AS (
    SELECT captures.who AS who, captures.captured_at AS captured_at, coalesce(cases.cluster, '') AS cluster, cases.code AS code,
        cases.name AS name, coalesce(cases.instance_title, '') AS instance, cases.summary AS summary
    FROM before_cases AS cases JOIN captures ON captures.capture = cases.capture
),
seen_before AS (
    SELECT DISTINCT captures.who AS who, coalesce(before_hosts.cluster, '') AS cluster
    FROM before_hosts JOIN captures ON captures.capture = before_hosts.capture
),
told AS (
    SELECT 'opened' AS change, one.* FROM now_cases AS one
    JOIN seen_before ON seen_before.who = one.who AND seen_before.cluster = one.cluster
    LEFT JOIN earlier_cases AS other ON other.who = one.who AND other.cluster = one.cluster AND other.code = one.code
        AND other.instance = one.instance
    WHERE other.code IS NULL
    UNION ALL
    SELECT 'closed' AS change, one.* FROM earlier_cases AS one
    LEFT JOIN now_cases AS other ON other.who = one.who AND other.cluster = one.cluster AND other.code = one.code
        AND other.instance = one.instance
    WHERE other.code IS NULL
)
SELECT change, cluster, who AS host, code, name, instance, captured_at, summary
FROM told
ORDER BY change DESC, cluster, host, code, instance
