-- Memory in page tables, by cluster, system and engine, and what huge pages would save.
SELECT
    coalesce(hosts.cluster, '') AS cluster,
    coalesce(hosts.os, '') AS os,
    instances.engine AS engine,
    count(DISTINCT hosts.capture) AS hosts,
    count(*) AS instances,
    -- Not one of which a pool could hold nothing.
    sum(CASE WHEN instances.huge_pages IN ('none', 'partly') AND coalesce(instances.saved_at_max_bytes, 1) > 0 THEN 1 ELSE 0 END)
        AS without_huge_pages,
    sum(coalesce(instances.page_tables_bytes, 0)) AS page_tables_bytes,
    sum(coalesce(instances.saved_bytes, 0)) AS saved_bytes,
    sum(coalesce(instances.saved_at_max_bytes, 0)) AS saved_at_max_sessions_bytes
FROM instances JOIN hosts ON hosts.capture = instances.capture
WHERE instances.running
GROUP BY coalesce(hosts.cluster, ''), coalesce(hosts.os, ''), instances.engine
ORDER BY saved_at_max_sessions_bytes DESC, page_tables_bytes DESC, cluster, os, engine
