-- Pools that are idle, short, or uneven across a host's nodes.
WITH nodes AS (
    SELECT capture, page_bytes, min(total_pages) AS least_pages, max(total_pages) AS most_pages, count(*) AS nodes
    FROM pools WHERE node IS NOT NULL GROUP BY capture, page_bytes
),
judged AS (
    SELECT
        coalesce(judged_pools.cluster, '') AS cluster,
        captures.who AS host,
        judged_pools.page_bytes AS page_bytes,
        judged_pools.total_pages AS total_pages,
        judged_pools.unused_pages AS unused_pages,
        judged_pools.wanted_pages AS wanted_pages,
        nodes.least_pages AS least_pages_of_a_node,
        nodes.most_pages AS most_pages_of_a_node,
        coalesce(judged_pools.verdict, CASE WHEN nodes.nodes > 1 AND nodes.most_pages > 2 * nodes.least_pages THEN 'unequal' END) AS verdict
    FROM judged_pools
    JOIN captures ON captures.capture = judged_pools.capture
    LEFT JOIN nodes ON nodes.capture = judged_pools.capture AND nodes.page_bytes = judged_pools.page_bytes
)
SELECT *, CASE WHEN verdict = 'idle' THEN unused_pages * page_bytes ELSE 0 END AS idle_bytes
FROM judged WHERE verdict IS NOT NULL
ORDER BY idle_bytes DESC, verdict, cluster, host, page_bytes
