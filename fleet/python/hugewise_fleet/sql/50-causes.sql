-- What is wrong, by cause.
SELECT
    code,
    name,
    level,
    count(*) AS cases,
    count(DISTINCT capture) AS hosts,
    count(DISTINCT coalesce(cluster, '')) AS clusters,
    min(summary) AS example
FROM cases
GROUP BY code, name, level
ORDER BY CASE level WHEN 'error' THEN 0 WHEN 'warn' THEN 1 ELSE 2 END, hosts DESC, code
