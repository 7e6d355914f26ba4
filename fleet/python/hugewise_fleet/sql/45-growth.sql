-- Pools that lack pages, and whether they can get them while the host runs.
WITH demand AS (
    SELECT capture, demand_page_bytes AS page_bytes, sum(demand_pages) AS wanted_pages
    FROM instances WHERE demand_pages IS NOT NULL AND asked <> 'no' AND asked <> 'cannot'
        AND (asked <> 'unknown' OR huge_pages IN ('all', 'partly'))
    GROUP BY capture, demand_page_bytes
),
lacking AS (
    SELECT
        coalesce(hosts.cluster, '') AS cluster,
        captures.who AS host,
        pools.page_bytes AS page_bytes,
        demand.wanted_pages - pools.total_pages AS missing_pages,
        pools.room_pages AS room_pages,
        -- Kernels before 3.14 do not tell what is available.
        coalesce(hosts.memory_available_bytes, hosts.memory_free_bytes) AS memory_available_bytes
    FROM pools
    JOIN demand ON demand.capture = pools.capture AND demand.page_bytes = pools.page_bytes
    JOIN hosts ON hosts.capture = pools.capture
    JOIN captures ON captures.capture = pools.capture
    WHERE pools.node IS NULL AND demand.wanted_pages > pools.total_pages
)
SELECT
    cluster,
    host,
    page_bytes,
    missing_pages,
    room_pages,
    missing_pages * page_bytes AS missing_bytes,
    memory_available_bytes,
    CASE
        WHEN room_pages >= missing_pages THEN 'now'
        -- Enough is free, in pieces that are too small: the kernel may still move what lies between.
        WHEN room_pages IS NOT NULL AND memory_available_bytes >= missing_pages * page_bytes
            THEN 'fragmented: if the kernel can compact memory, otherwise after a reboot'
        WHEN memory_available_bytes < missing_pages * page_bytes THEN 'no: the memory is in use'
        ELSE 'not known'
    END AS can_grow
FROM lacking
ORDER BY missing_bytes DESC, cluster, host, page_bytes
