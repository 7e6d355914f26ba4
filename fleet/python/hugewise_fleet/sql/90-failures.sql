-- Captures that could not be read, or only in part, and hosts that are missing.
WITH ranked AS (
    SELECT class, path, message,
        -- What has no bytes to be known by fails anew each day.
        CASE WHEN class IN ('absent', 'stale', 'denied', 'unreadable') THEN path ELSE capture END AS what,
        row_number() OVER (PARTITION BY class ORDER BY path, message) AS place
    FROM failures
)
SELECT class, count(DISTINCT what) AS captures, min(CASE WHEN place = 1 THEN path END) AS example,
    min(CASE WHEN place = 1 THEN message END) AS message
FROM ranked
GROUP BY class
ORDER BY captures DESC, class
