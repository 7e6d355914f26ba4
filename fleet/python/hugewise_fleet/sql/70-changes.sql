-- Cases that were opened or closed since the capture before.
WITH told AS (
    SELECT cluster, host, code, name, coalesce(instance_title, '') AS instance, summary, 'opened' AS change,
        (SELECT max(captured_at) FROM hosts WHERE hosts.capture = cases.capture) AS captured_at
    FROM cases
    WHERE EXISTS (
        SELECT 1 FROM before_hosts
        WHERE coalesce(before_hosts.cluster, '') = coalesce(cases.cluster, '') AND before_hosts.host = cases.host)
    AND NOT EXISTS (
        SELECT 1 FROM before_cases
        WHERE coalesce(before_cases.cluster, '') = coalesce(cases.cluster, '') AND before_cases.host = cases.host
        AND before_cases.code = cases.code AND coalesce(before_cases.instance_title, '') = coalesce(cases.instance_title, ''))
    UNION ALL
    SELECT cluster, host, code, name, coalesce(instance_title, ''), summary, 'closed',
        (SELECT max(captured_at) FROM before_hosts WHERE before_hosts.capture = before_cases.capture)
    FROM before_cases
    WHERE NOT EXISTS (
        SELECT 1 FROM cases
        WHERE coalesce(before_cases.cluster, '') = coalesce(cases.cluster, '') AND before_cases.host = cases.host
        AND before_cases.code = cases.code AND coalesce(before_cases.instance_title, '') = coalesce(cases.instance_title, ''))
)
SELECT change, coalesce(cluster, '') AS cluster, coalesce(host, '') AS host, code, name, instance, captured_at, summary
FROM told
ORDER BY change DESC, cluster, host, code, instance
