-- Each of these captures and hosts.
SELECT class, path, message, count(*) AS times, max(failed_at) AS last_at
FROM failures
GROUP BY class, path, message
ORDER BY class, last_at DESC, path, message
