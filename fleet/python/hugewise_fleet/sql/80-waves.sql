-- Hosts to change first, in waves that never contain two members of one cluster.
WITH saving AS (
    SELECT capture, sum(coalesce(saved_at_max_bytes, 0)) AS saved_bytes FROM instances GROUP BY capture
),
idle AS (
    SELECT capture, sum(unused_pages * page_bytes) AS idle_bytes FROM judged_pools WHERE verdict = 'idle' GROUP BY capture
),
starts AS (
    SELECT
        later.capture AS capture,
        later.engine AS engine,
        later.instance AS instance,
        max(CASE WHEN later.state = 'does_not_start' THEN 2
            WHEN present.state = 'all' AND later.state IN ('partly', 'none') THEN 1
            WHEN present.state = 'partly' AND later.state = 'none' THEN 1 ELSE 0 END) AS worst
    FROM moments AS later
    JOIN moments AS present
        ON present.capture = later.capture AND present.engine = later.engine AND present.instance = later.instance
        AND present.moment = 'now'
    WHERE later.moment IN ('restart', 'reboot')
    GROUP BY later.capture, later.engine, later.instance
),
risk AS (
    SELECT
        capture,
        sum(CASE WHEN worst = 2 THEN 1 ELSE 0 END) AS will_not_start,
        sum(CASE WHEN worst = 1 THEN 1 ELSE 0 END) AS will_fall_back
    FROM starts GROUP BY capture
),
ranked AS (
    SELECT
        hosts.cluster AS cluster,
        coalesce(hosts.host, hosts.path) AS host,
        coalesce(risk.will_not_start, 0) AS servers_that_will_not_start,
        coalesce(risk.will_fall_back, 0) AS servers_that_will_fall_back,
        coalesce(saving.saved_bytes, 0) AS page_tables_saved_bytes,
        coalesce(idle.idle_bytes, 0) AS idle_pool_bytes,
        hosts.errors AS errors
    FROM hosts
    LEFT JOIN saving ON saving.capture = hosts.capture
    LEFT JOIN idle ON idle.capture = hosts.capture
    LEFT JOIN risk ON risk.capture = hosts.capture
),
ordered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY cluster
            ORDER BY servers_that_will_not_start DESC, servers_that_will_fall_back DESC, page_tables_saved_bytes + idle_pool_bytes DESC, errors DESC, host
        ) AS place
    FROM ranked
    WHERE servers_that_will_not_start + servers_that_will_fall_back + page_tables_saved_bytes + idle_pool_bytes + errors > 0
)
SELECT
    -- A host of no cluster waits for nobody.
    CASE WHEN cluster IS NULL THEN 1 ELSE place END AS wave,
    coalesce(cluster, '') AS cluster,
    host,
    servers_that_will_not_start,
    servers_that_will_fall_back,
    page_tables_saved_bytes,
    idle_pool_bytes,
    errors
FROM ordered
ORDER BY
    wave,
    servers_that_will_not_start DESC,
    servers_that_will_fall_back DESC,
    page_tables_saved_bytes + idle_pool_bytes DESC,
    errors DESC,
    cluster,
    host
