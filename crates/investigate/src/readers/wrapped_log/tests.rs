#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::event::LogEventKind;

/// `date -u -d '2026-11-21 22:47:35' +%s`
const THEN: i64 = 1_795_301_255_000;

fn read_text(text: &str) -> Vec<Series> {
    crate::readers::read(text.as_bytes(), "log").unwrap()
}

fn events(series: &Series) -> Vec<(i64, LogEventKind)> {
    series.events().map(|(at, event)| ((at.0 - THEN).div_euclid(1000), event.kind)).collect()
}

/// Lines of Redis, PostgreSQL, MariaDB and MongoDB, as they write them.
const REDIS: [&str; 2] = [
    "1:M 21 Nov 2026 22:47:35.007 # Can't save in background: fork: Cannot allocate memory",
    "1:M 21 Nov 2026 22:47:36.007 * Ready to accept connections tcp",
];
const POSTGRESQL: [&str; 2] = [
    "2026-11-21 22:47:35.250 UTC [29] LOG:  could not fork new process for connection: Cannot \
     allocate memory",
    "2026-11-21 22:47:36.250 UTC [1] LOG:  database system is ready to accept connections",
];
const MARIADB: [&str; 2] = [
    "2026-11-21 22:47:35 0 [Warning] mariadbd: Out of memory (Needed 4096 bytes)",
    "2026-11-21 22:47:36 0 [Note] mariadbd: ready for connections.",
];
const MONGODB: [&str; 2] = [
    r#"{"t":{"$date":"2026-11-21T22:47:35.011+00:00"},"s":"E",  "c":"STORAGE",  "id":22435,   "ctx":"x","msg":"WiredTiger error","attr":{"error":12,"message":"Cannot allocate memory"}}"#,
    r#"{"t":{"$date":"2026-11-21T22:47:36.011+00:00"},"s":"I",  "c":"NETWORK",  "id":23016,   "ctx":"x","msg":"Waiting for connections","attr":{"port":27017}}"#,
];

#[test]
fn whatever_stands_before_a_servers_lines_is_taken_off() {
    type Before<'a> = &'a dyn Fn(&str, &str) -> String;
    let json = |time: &str, line: &str| {
        let line = line.replace('"', "\\\"");
        format!(r#"{{"log":"{line}\n","stream":"stderr","time":"{time}Z"}}"#)
    };
    let label = |time: &str| {
        // 2^62 + 10 + 1795301255 and one more, by hand.
        if time.ends_with("35.5") { "400000006b021f91" } else { "400000006b021f92" }
    };
    let forms: [(&str, Before<'_>); 15] = [
        ("docker compose", &|_, line| format!("db_1         | {line}")),
        ("docker service", &|_, line| format!("db.1.76bikgr3bu48@node1    | {line}")),
        ("docker compose -t", &|time, line| format!("db-1  | {time}6789012Z {line}")),
        ("kubectl --prefix", &|_, line| format!("[pod/db-0/server] {line}")),
        ("stern", &|_, line| format!("db-0 server {line}")),
        ("containerd", &|time, line| format!("{time}6789012Z stderr F {line}")),
        ("docker's file", &json),
        ("docker logs -t", &|time, line| format!("{time}6789012Z {line}")),
        ("klog", &|_, line| format!("I1121 22:47:35.500000    8843 run.go:96] {line}")),
        ("multilog", &|time, line| format!("@{}1dcd6500 {line}", label(time))),
        ("svlogd -tt", &|time, line| format!("{} {line}", time.replace('T', "_"))),
        ("GitHub's jobs", &|time, line| format!("test\tRun\t{time}678901Z {line}")),
        ("GitLab's jobs", &|time, line| format!("{time}67890Z 00O {line}")),
        ("Jenkins", &|time, line| format!("[{time}67Z] {line}")),
        ("a tag", &|_, line| format!("server[4711]: {line}")),
    ];
    for (form, before) in forms {
        for lines in [REDIS, POSTGRESQL, MARIADB, MONGODB] {
            let times = ["2026-11-21T22:47:35.5", "2026-11-21T22:47:36.5"];
            let text: String =
                times.iter().zip(lines).map(|(time, line)| before(time, line) + "\n").collect();
            let all = read_text(&text);
            assert_eq!(all.len(), 1, "{form}: {text}");
            let expected = [(0, LogEventKind::MemoryRefused), (1, LogEventKind::ServerStarted)];
            assert_eq!(events(&all[0]), expected, "{form}: {text}");
        }
    }
}

#[test]
fn containers_of_one_text_are_told_apart() {
    let text: String = REDIS
        .iter()
        .map(|line| format!("cache-1  | {line}\n"))
        .chain(POSTGRESQL.iter().map(|line| format!("db-1     | {line}\n")))
        .chain(["web-1    | GET / 200\n".to_owned()])
        .collect();
    let all = read_text(&text);
    let names: Vec<&str> = all.iter().map(|series| series.source.as_str()).collect();
    assert_eq!(names, ["log (cache-1)", "log (db-1)"]);
    for series in &all {
        assert_eq!(
            events(series),
            [(0, LogEventKind::MemoryRefused), (1, LogEventKind::ServerStarted)]
        );
    }
}

/// A collector's time before MySQL 5.5's own, by two clocks; InnoDB's first line has none of its own.
#[test]
fn a_servers_own_time_counts_where_it_has_one() {
    let text = "> 2026-11-21 01:18:40:InnoDB: mmap(137363456 bytes) failed; errno 12\n\
                > 2026-11-21 01:18:40:261121 22:47:35 InnoDB: Completed initialization of buffer \
                pool\n> 2026-11-21 01:18:40:261121 22:47:35 [Note] mysqld: Shutdown complete\n";
    let all = read_text(text);
    assert_eq!(events(&all[0]), [(0, LogEventKind::ServerRefused)]);
}

#[test]
fn a_time_of_whoever_passes_it_on_counts_where_a_server_has_none() {
    let mut reader = ServerLogReader::new("log", hugewise_model::Engine::PostgreSql);
    let stamp = LineTimestamp::parse("2026-11-21T22:47:35Z");
    reader.push_passed_line(stamp, "LOG:  could not fork new process: Cannot allocate memory");
    let series = reader.into_series().unwrap();
    assert_eq!(events(&series), [(0, LogEventKind::MemoryRefused)]);
}

#[test]
fn other_texts_have_no_wrapper() {
    for text in [
        "",
        " id | name\n----+------\n  1 | a\n",
        "db-1  | hello\ndb-1  | world\n",
        "2026-11-21T22:47:35Z hello\n",
        &REDIS.join("\n"),
        &POSTGRESQL.join("\n"),
        &MARIADB.join("\n"),
        &MONGODB.join("\n"),
        &"2026-11-21T22:47:35Z ".repeat(400),
        &"a: ".repeat(2000),
        &"> ".repeat(2000),
        "é|é\n@4000\n{\"log\"",
    ] {
        assert_eq!(learn_shape(text.as_bytes()), None, "{text}");
    }
}
