-- Memory in page tables, by cluster, system and engine, and what huge pages would save.
SELECT
    coalesce(hosts.cluster, '') AS cluster,
    coalesce(hosts.os, '') AS os,
    instances.engine AS engine,
    count(DISTINCT hosts.capture) AS hosts,
    count(*) AS instances,
    sum(CASE WHEN instances.huge_pages IN ('none', 'partly') THEN 1 ELSE 0 END) AS without_huge_pages,
    sum(coalesce(instances.page_tables_bytes, 0)) AS page_tables_bytes,
    sum(CASE WHEN instances.huge_pages IN ('none', 'partly') THEN coalesce(instances.page_tables_bytes, 0) ELSE 0 END)
        AS given_back_bytes,
    sum(CASE WHEN instances.huge_pages IN ('none', 'partly')
        AND instances.at_max_base_page_tables_bytes > instances.at_max_huge_page_tables_bytes
        THEN instances.at_max_base_page_tables_bytes - instances.at_max_huge_page_tables_bytes
        -- Where the limit is not known, those of now.
        WHEN instances.huge_pages IN ('none', 'partly') THEN coalesce(instances.page_tables_bytes, 0) ELSE 0 END)
        AS given_back_at_max_sessions_bytes
FROM instances JOIN hosts ON hosts.capture = instances.capture
WHERE instances.running
GROUP BY coalesce(hosts.cluster, ''), coalesce(hosts.os, ''), instances.engine
ORDER BY given_back_at_max_sessions_bytes DESC, page_tables_bytes DESC, cluster, os, engine
