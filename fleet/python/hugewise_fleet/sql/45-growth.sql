-- Pools that lack pages, and whether they can get them while the host runs.
WITH lacking AS (
    SELECT
        coalesce(judged_pools.cluster, '') AS cluster,
        captures.who AS host,
        judged_pools.page_bytes AS page_bytes,
        judged_pools.wanted_pages - judged_pools.total_pages AS missing_pages,
        judged_pools.room_pages AS room_pages,
        -- Kernels before 3.14 do not tell what is available.
        coalesce(hosts.memory_available_bytes, hosts.memory_free_bytes) AS memory_available_bytes
    FROM judged_pools
    JOIN hosts ON hosts.capture = judged_pools.capture
    JOIN captures ON captures.capture = judged_pools.capture
    WHERE judged_pools.verdict = 'short'
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
