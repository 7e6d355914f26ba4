-- Servers that will be worse off after their next restart or the next reboot.
SELECT
    coalesce(later.cluster, '') AS cluster,
    captures.who AS host,
    later.engine AS engine,
    later.instance AS instance,
    later.moment AS moment,
    present.state AS state_now,
    later.state AS state_then,
    later.why AS why
FROM moments AS later
JOIN moments AS present
    ON present.capture = later.capture AND present.engine = later.engine AND present.instance = later.instance
    AND present.moment = 'now'
JOIN captures ON captures.capture = later.capture
WHERE later.moment IN ('restart', 'reboot')
    AND (later.state = 'does_not_start'
        OR (present.state = 'all' AND later.state IN ('partly', 'none'))
        OR (present.state = 'partly' AND later.state = 'none'))
ORDER BY CASE later.state WHEN 'does_not_start' THEN 0 ELSE 1 END, cluster, host, engine, instance, moment
