-- Pools that are idle, short, or uneven across a host's nodes.
WITH demand AS (
    SELECT
        capture,
        demand_page_bytes AS page_bytes,
        sum(CASE WHEN asked <> 'unknown' OR huge_pages IN ('all', 'partly') THEN demand_pages ELSE 0 END) AS wanted_pages,
        -- With those of servers of which it is not known whether they ask.
        sum(demand_pages) AS at_most_pages
    FROM instances WHERE demand_pages IS NOT NULL AND asked <> 'no' AND asked <> 'cannot'
    GROUP BY capture, demand_page_bytes
),
nodes AS (
    SELECT capture, page_bytes, min(total_pages) AS least_pages, max(total_pages) AS most_pages, count(*) AS nodes
    FROM pools WHERE node IS NOT NULL GROUP BY capture, page_bytes
),
judged AS (
    SELECT
        coalesce(pools.cluster, '') AS cluster,
        captures.who AS host,
        pools.page_bytes AS page_bytes,
        pools.total_pages AS total_pages,
        pools.free_pages - coalesce(pools.reserved_pages, 0) AS unused_pages,
        coalesce(demand.wanted_pages, 0) AS wanted_pages,
        nodes.least_pages AS least_pages_of_a_node,
        nodes.most_pages AS most_pages_of_a_node,
        CASE
            WHEN coalesce(demand.wanted_pages, 0) > pools.total_pages THEN 'short'
            -- What a server that is stopped will need, or may ask for, is not idle.
            WHEN pools.total_pages > 0 AND 2 * (pools.free_pages - coalesce(pools.reserved_pages, 0)) >= pools.total_pages
                AND 2 * coalesce(demand.at_most_pages, 0) <= pools.total_pages THEN 'idle'
            WHEN nodes.nodes > 1 AND nodes.most_pages > 2 * nodes.least_pages THEN 'unequal'
        END AS verdict
    FROM pools
    JOIN captures ON captures.capture = pools.capture
    LEFT JOIN demand ON demand.capture = pools.capture AND demand.page_bytes = pools.page_bytes
    LEFT JOIN nodes ON nodes.capture = pools.capture AND nodes.page_bytes = pools.page_bytes
    WHERE pools.node IS NULL
)
SELECT *, CASE WHEN verdict = 'idle' THEN unused_pages * page_bytes ELSE 0 END AS idle_bytes
FROM judged WHERE verdict IS NOT NULL
ORDER BY idle_bytes DESC, verdict, cluster, host, page_bytes
