//! The tables: what they are called, their columns, and the page that documents them.

use std::fmt::Write;

use hugewise_report::parquet::Column as Written;

/// Version of the tables. Within one version columns are added at the end, never changed.
pub const VERSION: i64 = 1;

/// Parts of a day, by the host's name.
pub(crate) const BUCKETS: u8 = 16;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text in UTF-8.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A number of 64 bits in floating point.
    Number,
    /// True or false.
    Flag,
    /// A moment in UTC, to the millisecond.
    Time,
}

impl Kind {
    const fn in_sql(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Integer => "BIGINT",
            Self::Number => "DOUBLE",
            Self::Flag => "BOOLEAN",
            Self::Time => "TIMESTAMP WITH TIME ZONE",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be null: a fact that is not known, or that there is not.
    pub optional: bool,
    /// What that is.
    pub what: &'static str,
}

impl Column {
    pub(crate) fn written(&self) -> Written {
        match self.kind {
            Kind::Text => Written::texts(self.name, self.optional),
            Kind::Integer => Written::integers(self.name, self.optional),
            Kind::Number => Written::numbers(self.name, self.optional),
            Kind::Flag => Written::flags(self.name, self.optional),
            Kind::Time => Written::times(self.name, self.optional),
        }
    }
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name: the folder of its files.
    pub name: &'static str,
    /// What a row is.
    pub row: &'static str,
    /// Its own columns, behind those that all tables have.
    pub own: &'static [Column],
}

impl Table {
    /// All columns, those that every table has first.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        COMMON.iter().chain(self.own)
    }
}

const fn needed(name: &'static str, kind: Kind, what: &'static str) -> Column {
    Column { name, kind, optional: false, what }
}

const fn maybe(name: &'static str, kind: Kind, what: &'static str) -> Column {
    Column { name, kind, optional: true, what }
}

use Kind::{Flag, Integer, Number, Text, Time};

/// Columns that every table begins with.
pub const COMMON: &[Column] = &[
    needed("schema_version", Integer, "version of these tables"),
    needed("capture", Text, "SHA-256 of the capture; the same in all tables, so join on it"),
    maybe("host", Text, "name that the host gives itself; null if its capture has none"),
    maybe("cluster", Text, "the value of `--label`"),
    maybe("captured_at", Time, "when the facts were read on the host"),
];

const ENGINE: Column = needed("engine", Text, "kind of server: `oracle`, `postgresql`, ...");
const NAME: Column = needed("instance", Text, "its name, unique among the engine's instances on the host");

/// Places of the tables in [`TABLES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Hosts,
    Pools,
    Instances,
    Moments,
    Cases,
    Findings,
    Incidents,
    Series,
    Failures,
}

impl Place {
    pub(crate) const fn table(self) -> &'static Table {
        match self {
            Self::Hosts => &HOSTS,
            Self::Pools => &POOLS,
            Self::Instances => &INSTANCES,
            Self::Moments => &MOMENTS,
            Self::Cases => &CASES,
            Self::Findings => &FINDINGS,
            Self::Incidents => &INCIDENTS,
            Self::Series => &SERIES,
            Self::Failures => &FAILURES,
        }
    }
}

/// The tables.
pub const TABLES: [&Table; 9] =
    [&HOSTS, &POOLS, &INSTANCES, &MOMENTS, &CASES, &FINDINGS, &INCIDENTS, &SERIES, &FAILURES];

const HOSTS: Table = Table {
    name: "hosts",
    row: "one capture of a host",
    own: &[
        needed("path", Text, "where the capture was found"),
        maybe("os", Text, "operating system"),
        maybe("kernel", Text, "kernel release"),
        maybe("architecture", Text, "`uname -m`"),
        maybe("processors", Integer, "online processors"),
        maybe("base_page_bytes", Integer, "size of a base page"),
        maybe("default_huge_page_bytes", Integer, "default size of a huge page, for programs that name none"),
        maybe("memory_bytes", Integer, "`MemTotal`"),
        maybe("memory_free_bytes", Integer, "`MemFree`"),
        maybe("memory_available_bytes", Integer, "`MemAvailable`"),
        maybe("swap_total_bytes", Integer, "`SwapTotal`"),
        maybe("swap_used_bytes", Integer, "swap in use"),
        maybe("page_tables_bytes", Integer, "page tables of all processes"),
        maybe("thp_enabled", Text, "transparent huge pages: `always`, `madvise`, `never`"),
        maybe("thp_defrag", Text, "when an allocation may wait for compaction"),
        maybe("thp_shmem_enabled", Text, "the switch for shared memory"),
        needed("instances", Integer, "database servers on the host, running or not"),
        needed("errors", Integer, "findings that hurt now, or will at the next start"),
        needed("warnings", Integer, "findings that will hurt under load"),
        needed("infos", Integer, "findings worth knowing"),
        needed("undecided_rules", Integer, "verdicts that are missing because facts are"),
        needed("unread_facts", Integer, "facts that exist but could not be read"),
        maybe("torn", Text, "where the capture breaks off; null if it is whole"),
    ],
};

const POOLS: Table = Table {
    name: "pools",
    row: "the huge pages of one size, on a whole host or on one of its NUMA nodes",
    own: &[
        needed("page_bytes", Integer, "page size"),
        maybe("node", Integer, "NUMA node; null for the whole host, so filter by it before you sum"),
        maybe("total_pages", Integer, "pages in the pool"),
        maybe("free_pages", Integer, "free pages, including the reserved ones"),
        maybe("reserved_pages", Integer, "pages reserved but not yet touched; for the whole host only"),
        maybe("surplus_pages", Integer, "pages above the configured number"),
        maybe("overcommit_pages", Integer, "surplus pages that the pool may take on demand; for the whole host only"),
        maybe("committed_pages", Integer, "total - free + reserved; for the whole host only"),
        maybe("available_pages", Integer, "free - reserved; for the whole host only"),
        maybe(
            "room_pages",
            Integer,
            "pages that free memory outside of the pool has room for in one piece: so many it can get at most without the kernel moving memory",
        ),
    ],
};

const INSTANCES: Table = Table {
    name: "instances",
    row: "one database server on a host",
    own: &[
        ENGINE,
        NAME,
        needed("running", Flag, "whether it is running"),
        maybe("version", Text, "server version"),
        needed("owner", Text, "operating system user"),
        maybe("unit", Text, "the systemd service that it runs in"),
        needed("containered", Flag, "whether it runs in another mount namespace than hugewise"),
        maybe("sessions", Integer, "client sessions now"),
        maybe("max_sessions", Integer, "sessions that the settings allow"),
        needed(
            "asked",
            Text,
            "whether the settings ask for huge pages: `no`, `try`, `must`, `raises`, `cannot`, `unknown`",
        ),
        maybe("setting", Text, "the setting that decides it, with its file and line"),
        needed("huge_pages", Text, "how much of its memory is on huge pages: `all`, `partly`, `none`, `unknown`"),
        maybe("demand_page_bytes", Integer, "size of the pages that it needs"),
        maybe("demand_pages", Integer, "pages that it needs to be wholly on huge pages"),
        maybe("demand_source", Text, "how that is known: `engine`, `measured`, `estimated`"),
        maybe("page_tables_bytes", Integer, "page tables of all its processes"),
        maybe("at_max_sessions", Integer, "the largest number of sessions; the next two columns are for it"),
        maybe("at_max_base_page_tables_bytes", Integer, "page tables expected then, with its memory on base pages"),
        maybe(
            "at_max_huge_page_tables_bytes",
            Integer,
            "page tables expected then, with its memory on pages of `demand_page_bytes`",
        ),
        maybe(
            "saved_bytes",
            Integer,
            "how much of `page_tables_bytes` huge pages would save: 0 if it is on huge pages already, or has nothing that a pool could hold",
        ),
        maybe(
            "saved_at_max_bytes",
            Integer,
            "the same with the largest number of sessions; where that is not known, with those of now",
        ),
        maybe("touched_bytes", Integer, "how much of its segments has been touched, at most"),
        maybe("memlock_bytes", Integer, "soft memlock limit; null if it is unlimited or not known"),
        needed("segments", Integer, "stretches of memory that huge pages could back"),
        needed("segments_bytes", Integer, "their size as mapped"),
    ],
};

const MOMENTS: Table = Table {
    name: "moments",
    row: "how an instance stands at one moment; an instance has three or none",
    own: &[
        ENGINE,
        NAME,
        needed(
            "moment",
            Text,
            "`now`, `restart` (of this server alone) or `reboot` (of the host, with its servers in the worst order)",
        ),
        needed("state", Text, "`all`, `partly`, `none`, `does_not_start`, `not_running`, `unknown`, `not_counted`"),
        maybe("why", Text, "the evidence for that; null if there is nothing to say"),
    ],
};

const CASES: Table = Table {
    name: "cases",
    row: "one cause, with what follows from it",
    own: &[
        needed("case_number", Integer, "from 0, worst first"),
        needed("level", Text, "the worst level in the case: `error`, `warn`, `info`"),
        needed("code", Text, "code of the rule that is the cause; `hugewise rules` lists them"),
        needed("name", Text, "its name: `no-pool`"),
        maybe("instance_title", Text, "`oracle PROD`; null for the host as a whole"),
        needed("summary", Text, "one sentence"),
        needed("cost", Text, "what it costs"),
        needed("symptoms", Integer, "findings that follow from it"),
        maybe("symptom_codes", Text, "their rules, separated by blanks; null if there are none"),
    ],
};

const FINDINGS: Table = Table {
    name: "findings",
    row: "one rule's verdict",
    own: &[
        needed("finding_number", Integer, "from 0, worst first"),
        maybe("case_number", Integer, "the case that it belongs to"),
        needed("is_cause", Flag, "whether it is the cause of that case"),
        needed("level", Text, "`error`, `warn`, `info`"),
        needed("code", Text, "code of the rule; `hugewise rules` lists them"),
        needed("name", Text, "`no-pool`"),
        maybe("instance_title", Text, "`oracle PROD`; null for the host as a whole"),
        needed("summary", Text, "one sentence"),
        needed("evidence", Text, "facts that it is based on, one per line"),
        maybe("cost", Text, "what it costs; null if no number is known"),
        needed("fix", Text, "what ends it, in words, one per line"),
    ],
};

const CLOCK: Column =
    needed("clock", Text, "`utc`, or `wall` if the archive has the host's wall clock and does not give its zone");

const INCIDENTS: Table = Table {
    name: "incidents",
    row: "one incident that `hugewise investigate` finds in the archives of a host's collectors, under the day on which it began",
    own: &[
        needed("began_at", Time, "when it began"),
        needed("ended_at", Time, "when it ended"),
        CLOCK,
        needed("verdict", Text, "the verdict: `reclaim-by-page-tables`, `login-storm`, ..."),
        needed("confidence", Text, "how certain that is: `high`, `medium`, `low`"),
        needed("summary", Text, "the same as a sentence with its figures"),
        needed("signatures", Text, "kinds of trouble that coincide in it, one per line"),
        maybe("who", Text, "programs that grew or were stuck, one per line; null if no source lists processes"),
        maybe("elsewhere", Text, "the same on other hosts at the same time, one per line"),
        maybe("other_days", Text, "whether it was there at the same hours of other days, one per line"),
        maybe("next", Text, "what to do next, one per line"),
    ],
};

const SERIES: Table = Table {
    name: "series",
    row: "one metric of a collector in one hour; metrics that no incident is judged by are left out",
    own: &[
        needed("hour", Time, "when the hour begins"),
        CLOCK,
        needed("collector", Text, "`sysstat`, `atop`, `pcp`, `recorder`, ..."),
        needed("metric", Text, "its name, ending in the unit"),
        needed("samples", Integer, "samples in that hour that have it"),
        needed("least", Number, "the smallest"),
        needed("mean", Number, "their mean"),
        needed("most", Number, "the largest"),
    ],
};

const FAILURES: Table = Table {
    name: "failures",
    row: "one path that could not be read, or not completely, or one host of `--expect` that is missing",
    own: &[
        needed("path", Text, "the path that was given, or found below it; the name of a host that is missing"),
        needed(
            "class",
            Text,
            "`denied`, `not_a_capture`, `torn`, `too_large`, `unreadable`, `defect`; for a host that was expected: `absent`, `stale`",
        ),
        needed("message", Text, "what went wrong"),
        needed("failed_at", Time, "when it was tried"),
        needed("rows_kept", Flag, "whether what could be read is in the other tables, as it is for a torn capture"),
    ],
};

/// docs/schema/tables.md.
pub fn page() -> String {
    let mut text = format!(
        "# Fleet tables\n\n\
         `hugewise collect PATH... --out LAKE` writes these tables, version {VERSION}. Within a version, columns are only \
         added at the end of a table, never changed. This page is generated from the code that writes them.\n\n\
         A table is a folder of Parquet files: `LAKE/TABLE/day=2026-11-25/bucket=07/part-....parquet`. `day` is the day of \
         `captured_at` in UTC (in `failures` that of `failed_at`); it is `__HIVE_DEFAULT_PARTITION__`, which SQL engines \
         read as null, if a capture does not say when it was made. `bucket` is 00 to {:02}, the same for all captures of \
         a host; engines disagree on whether it is a number. Both are only in the path: with hive partitioning they become \
         columns. A table without rows has no folder. Times are in UTC, \
         sizes in bytes, and a fact that is not known is null, never zero. So is a number that no machine can have: more than 4 PiB of \
         memory, or a time before 1970 or after 9998.\n\n\
         Each row is there once, whatever was killed or tried again. `LAKE/_manifest` says which captures are in \
         the tables; leave it alone. A host that was captured twice has its rows twice, with different values of `capture`: take \
         the latest `captured_at`. Rows of `incidents` and `series` belong to one day of a host: `capture` identifies what its \
         archives say about that day, and `captured_at` is how far into the day they reach. A day that was collected before it ended appears \
         again when it is collected later: take the latest `captured_at` of each host, day, and in `series` collector.\n",
        BUCKETS - 1
    );
    section(&mut text, "In every table", "", COMMON);
    for table in TABLES {
        section(&mut text, table.name, &format!("Each row is {}.\n\n", table.row), table.own);
    }
    text
}

fn section(text: &mut String, title: &str, row: &str, columns: &[Column]) {
    let _ = write!(text, "\n## {title}\n\n{row}| column | type | null | what it is |\n| --- | --- | --- | --- |\n");
    for column in columns {
        let Column { name, kind, optional, what } = column;
        let null = if *optional { "may be" } else { "never" };
        let _ = writeln!(text, "| `{name}` | {} | {null} | {what} |", kind.in_sql());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn a_table_has_no_column_twice() {
        for table in super::TABLES {
            let names: Vec<&str> = table.columns().map(|column| column.name).collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len(), "{}", table.name);
        }
    }

    #[test]
    fn the_committed_page_is_up_to_date() {
        let committed = include_str!("../../../docs/schema/tables.md");
        assert_eq!(committed, super::page(), "docs/schema/tables.md is stale: run `cargo xtask docs`");
    }
}
