-- Cases opened, reopened or closed since the previous capture.
WITH told_cases AS (
    SELECT captures.who AS who, captures.age AS age, captures.captured_at AS captured_at, coalesce(cases.cluster, '') AS cluster,
        cases.code AS code, cases.name AS name, coalesce(cases.instance_title, '') AS instance, cases.summary AS summary
    FROM all_cases AS cases JOIN captures ON captures.capture = cases.capture
),
once_cases AS (
    SELECT DISTINCT who, cluster, code, instance FROM told_cases WHERE age > 2
),
seen_before AS (
    -- A capture that says less than the one before does not close a case: it cannot tell.
    SELECT captures.who AS who, coalesce(hosts.cluster, '') AS cluster,
        CASE WHEN hosts.torn IS NULL AND coalesce(hosts.undecided_rules, 0) <= coalesce(before_hosts.undecided_rules, 0)
            THEN 'closed' ELSE 'not known' END AS gone
    FROM hosts
    JOIN captures ON captures.capture = hosts.capture
    JOIN captures AS earlier ON earlier.who = captures.who AND earlier.age = 2
    JOIN before_hosts ON before_hosts.capture = earlier.capture AND coalesce(before_hosts.cluster, '') = coalesce(hosts.cluster, '')
),
told AS (
    SELECT CASE WHEN once_cases.code IS NULL THEN 'opened' ELSE 'reopened' END AS change,
        one.cluster, one.who, one.code, one.name, one.instance, one.captured_at, one.summary
    FROM told_cases AS one
    JOIN seen_before ON seen_before.who = one.who AND seen_before.cluster = one.cluster
    LEFT JOIN told_cases AS other ON other.age = 2 AND other.who = one.who AND other.cluster = one.cluster AND other.code = one.code
        AND other.instance = one.instance
    LEFT JOIN once_cases ON once_cases.who = one.who AND once_cases.cluster = one.cluster AND once_cases.code = one.code
        AND once_cases.instance = one.instance
    WHERE one.age = 1 AND other.code IS NULL
    UNION ALL
    SELECT seen_before.gone AS change,
        one.cluster, one.who, one.code, one.name, one.instance, one.captured_at, one.summary
    FROM told_cases AS one
    JOIN seen_before ON seen_before.who = one.who AND seen_before.cluster = one.cluster
    LEFT JOIN told_cases AS other ON other.age = 1 AND other.who = one.who AND other.cluster = one.cluster AND other.code = one.code
        AND other.instance = one.instance
    WHERE one.age = 2 AND other.code IS NULL
)
SELECT change, cluster, who AS host, code, name, instance, captured_at, summary
FROM told
ORDER BY CASE change WHEN 'reopened' THEN 0 WHEN 'opened' THEN 1 WHEN 'not known' THEN 2 ELSE 3 END, cluster, host, code, instance
