-- Captures that could not be read, or only in part.
SELECT class, count(*) AS captures, min(path) AS example, min(message) AS message
FROM failures
GROUP BY class
ORDER BY captures DESC, class
