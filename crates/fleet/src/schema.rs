//! The tables: what they are called, their columns, and the page that documents them.

use std::fmt::Write;

use hugewise_report::parquet::ParquetColumn as Written;

/// Version of the tables. Within one version columns are added at the end, never changed.
pub const VERSION: i64 = 1;

/// Parts of a day, by the host's name.
pub(crate) const BUCKETS: u8 = 16;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LakeColumnKind {
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

impl LakeColumnKind {
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
pub struct LakeColumn {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: LakeColumnKind,
    /// Whether it may be null: a fact that is not known, or that there is not.
    pub optional: bool,
    /// What that is.
    pub what: &'static str,
}

impl LakeColumn {
    pub(crate) fn to_parquet_column(self) -> Written {
        match self.kind {
            LakeColumnKind::Text => Written::for_texts(self.name, self.optional),
            LakeColumnKind::Integer => Written::for_integers(self.name, self.optional),
            LakeColumnKind::Number => Written::for_numbers(self.name, self.optional),
            LakeColumnKind::Flag => Written::for_flags(self.name, self.optional),
            LakeColumnKind::Time => Written::for_times(self.name, self.optional),
        }
    }
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct LakeTable {
    /// Its name: the folder of its files.
    pub name: &'static str,
    /// What a row is.
    pub row: &'static str,
    /// Its own columns, behind those that all tables have.
    pub own: &'static [LakeColumn],
}

impl LakeTable {
    /// All columns, those that every table has first.
    pub fn columns(&self) -> impl Iterator<Item = &'static LakeColumn> + use<> {
        COMMON.iter().chain(self.own)
    }
}

const fn required_column(
    name: &'static str,
    kind: LakeColumnKind,
    what: &'static str,
) -> LakeColumn {
    LakeColumn { name, kind, optional: false, what }
}

const fn optional_column(
    name: &'static str,
    kind: LakeColumnKind,
    what: &'static str,
) -> LakeColumn {
    LakeColumn { name, kind, optional: true, what }
}

use LakeColumnKind::{Flag, Integer, Number, Text, Time};

/// Columns that every table begins with.
pub const COMMON: &[LakeColumn] = &[
    required_column("schema_version", Integer, "version of these tables"),
    required_column(
        "capture",
        Text,
        "SHA-256 of the capture; the same in all tables, so join on it",
    ),
    optional_column("host", Text, "name that the host gives itself; null if its capture has none"),
    optional_column("cluster", Text, "the value of `--label`"),
    optional_column("captured_at", Time, "when the facts were read on the host"),
];

const ENGINE: LakeColumn =
    required_column("engine", Text, "kind of server: `oracle`, `postgresql`, ...");
const NAME: LakeColumn =
    required_column("instance", Text, "its name, unique among the engine's instances on the host");

/// Places of the tables in [`TABLES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LakeTableId {
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

impl LakeTableId {
    pub(crate) const fn table(self) -> &'static LakeTable {
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
pub const TABLES: [&LakeTable; 9] =
    [&HOSTS, &POOLS, &INSTANCES, &MOMENTS, &CASES, &FINDINGS, &INCIDENTS, &SERIES, &FAILURES];

const HOSTS: LakeTable = LakeTable {
    name: "hosts",
    row: "one capture of a host",
    own: &[
        required_column("path", Text, "where the capture was found"),
        optional_column("os", Text, "operating system"),
        optional_column("kernel", Text, "kernel release"),
        optional_column("architecture", Text, "`uname -m`"),
        optional_column("processors", Integer, "online processors"),
        optional_column("base_page_bytes", Integer, "size of a base page"),
        optional_column(
            "default_huge_page_bytes",
            Integer,
            "default size of a huge page, for programs that name none",
        ),
        optional_column("memory_bytes", Integer, "`MemTotal`"),
        optional_column("memory_free_bytes", Integer, "`MemFree`"),
        optional_column("memory_available_bytes", Integer, "`MemAvailable`"),
        optional_column("swap_total_bytes", Integer, "`SwapTotal`"),
        optional_column("swap_used_bytes", Integer, "swap in use"),
        optional_column("page_tables_bytes", Integer, "page tables of all processes"),
        optional_column(
            "thp_enabled",
            Text,
            "transparent huge pages: `always`, `madvise`, `never`",
        ),
        optional_column("thp_defrag", Text, "when an allocation may wait for compaction"),
        optional_column("thp_shmem_enabled", Text, "the switch for shared memory"),
        required_column("instances", Integer, "database servers on the host, running or not"),
        required_column("errors", Integer, "findings that hurt now, or will at the next start"),
        required_column("warnings", Integer, "findings that will hurt under load"),
        required_column("infos", Integer, "findings worth knowing"),
        required_column("undecided_rules", Integer, "verdicts that are missing because facts are"),
        required_column("unread_facts", Integer, "facts that exist but could not be read"),
        optional_column("torn", Text, "where the capture breaks off; null if it is whole"),
    ],
};

const POOLS: LakeTable = LakeTable {
    name: "pools",
    row: "the huge pages of one size, on a whole host or on one of its NUMA nodes",
    own: &[
        required_column("page_bytes", Integer, "page size"),
        optional_column(
            "node",
            Integer,
            "NUMA node; null for the whole host, so filter by it before you sum",
        ),
        optional_column("total_pages", Integer, "pages in the pool"),
        optional_column("free_pages", Integer, "free pages, including the reserved ones"),
        optional_column(
            "reserved_pages",
            Integer,
            "pages reserved but not yet touched; for the whole host only",
        ),
        optional_column("surplus_pages", Integer, "pages above the configured number"),
        optional_column(
            "overcommit_pages",
            Integer,
            "surplus pages that the pool may take on demand; for the whole host only",
        ),
        optional_column(
            "committed_pages",
            Integer,
            "total - free + reserved; for the whole host only",
        ),
        optional_column("available_pages", Integer, "free - reserved; for the whole host only"),
        optional_column(
            "room_pages",
            Integer,
            "pages that free memory outside of the pool has room for in one piece: so many it can \
                 get at most without the kernel moving memory",
        ),
    ],
};

const INSTANCES: LakeTable = LakeTable {
    name: "instances",
    row: "one database server on a host",
    own: &[
        ENGINE,
        NAME,
        required_column("running", Flag, "whether it is running"),
        optional_column("version", Text, "server version"),
        required_column("owner", Text, "operating system user"),
        optional_column("unit", Text, "the systemd service that it runs in"),
        required_column(
            "containered",
            Flag,
            "whether it runs in another mount namespace than hugewise",
        ),
        optional_column("sessions", Integer, "client sessions now"),
        optional_column("max_sessions", Integer, "sessions that the settings allow"),
        required_column(
            "asked",
            Text,
            "whether the settings ask for huge pages: `no`, `try`, `must`, `raises`, `cannot`, \
                 `unknown`",
        ),
        optional_column("setting", Text, "the setting that decides it, with its file and line"),
        required_column(
            "huge_pages",
            Text,
            "how much of its memory is on huge pages: `all`, `partly`, `none`, `unknown`",
        ),
        optional_column("demand_page_bytes", Integer, "size of the pages that it needs"),
        optional_column("demand_pages", Integer, "pages that it needs to be wholly on huge pages"),
        optional_column(
            "demand_source",
            Text,
            "how that is known: `engine`, `measured`, `estimated`",
        ),
        optional_column("page_tables_bytes", Integer, "page tables of all its processes"),
        optional_column(
            "at_max_sessions",
            Integer,
            "the largest number of sessions; the next two columns are for it",
        ),
        optional_column(
            "at_max_base_page_tables_bytes",
            Integer,
            "page tables expected then, with its memory on base pages",
        ),
        optional_column(
            "at_max_huge_page_tables_bytes",
            Integer,
            "page tables expected then, with its memory on pages of `demand_page_bytes`",
        ),
        optional_column(
            "saved_bytes",
            Integer,
            "how much of `page_tables_bytes` huge pages would save: 0 if it is on huge pages \
                 already, or has nothing that a pool could hold",
        ),
        optional_column(
            "saved_at_max_bytes",
            Integer,
            "the same with the largest number of sessions; where that is not known, with those of \
                 now",
        ),
        optional_column(
            "touched_bytes",
            Integer,
            "how much of its segments has been touched, at most",
        ),
        optional_column(
            "memlock_bytes",
            Integer,
            "soft memlock limit; null if it is unlimited or not known",
        ),
        required_column("segments", Integer, "stretches of memory that huge pages could back"),
        required_column("segments_bytes", Integer, "their size as mapped"),
    ],
};

const MOMENTS: LakeTable = LakeTable {
    name: "moments",
    row: "how an instance stands at one moment; an instance has three or none",
    own: &[
        ENGINE,
        NAME,
        required_column(
            "moment",
            Text,
            "`now`, `restart` (of this server alone) or `reboot` (of the host, with its servers \
                 in the worst order)",
        ),
        required_column(
            "state",
            Text,
            "`all`, `partly`, `none`, `does_not_start`, `not_running`, `unknown`, `not_counted`",
        ),
        optional_column("why", Text, "the evidence for that; null if there is nothing to say"),
    ],
};

const CASES: LakeTable = LakeTable {
    name: "cases",
    row: "one cause, with what follows from it",
    own: &[
        required_column("case_number", Integer, "from 0, worst first"),
        required_column("level", Text, "the worst level in the case: `error`, `warn`, `info`"),
        required_column(
            "code",
            Text,
            "code of the rule that is the cause; `hugewise rules` lists them",
        ),
        required_column("name", Text, "its name: `no-pool`"),
        optional_column("instance_title", Text, "`oracle PROD`; null for the host as a whole"),
        required_column("summary", Text, "one sentence"),
        required_column("cost", Text, "what it costs"),
        required_column("symptoms", Integer, "findings that follow from it"),
        optional_column(
            "symptom_codes",
            Text,
            "their rules, separated by blanks; null if there are none",
        ),
    ],
};

const FINDINGS: LakeTable = LakeTable {
    name: "findings",
    row: "one rule's verdict",
    own: &[
        required_column("finding_number", Integer, "from 0, worst first"),
        optional_column("case_number", Integer, "the case that it belongs to"),
        required_column("is_cause", Flag, "whether it is the cause of that case"),
        required_column("level", Text, "`error`, `warn`, `info`"),
        required_column("code", Text, "code of the rule; `hugewise rules` lists them"),
        required_column("name", Text, "`no-pool`"),
        optional_column("instance_title", Text, "`oracle PROD`; null for the host as a whole"),
        required_column("summary", Text, "one sentence"),
        required_column("evidence", Text, "facts that it is based on, one per line"),
        optional_column("cost", Text, "what it costs; null if no number is known"),
        required_column("fix", Text, "what ends it, in words, one per line"),
    ],
};

const CLOCK: LakeColumn = required_column(
    "clock",
    Text,
    "`utc`, or `wall` if the archive has the host's wall clock and does not give its zone",
);

const INCIDENTS: LakeTable = LakeTable {
    name: "incidents",
    row: "one incident that `hugewise investigate` finds in the archives of a host's collectors, \
         under the day on which it began",
    own: &[
        required_column("began_at", Time, "when it began"),
        required_column("ended_at", Time, "when it ended"),
        CLOCK,
        required_column(
            "verdict",
            Text,
            "the verdict: `reclaim-by-page-tables`, `login-storm`, ...",
        ),
        required_column("confidence", Text, "how certain that is: `high`, `medium`, `low`"),
        required_column("summary", Text, "the same as a sentence with its figures"),
        required_column("signatures", Text, "kinds of trouble that coincide in it, one per line"),
        optional_column(
            "who",
            Text,
            "programs that grew or were stuck, one per line; null if no source lists processes",
        ),
        optional_column(
            "elsewhere",
            Text,
            "the same on other hosts at the same time, one per line",
        ),
        optional_column(
            "other_days",
            Text,
            "whether it was there at the same hours of other days, one per line",
        ),
        optional_column("next", Text, "what to do next, one per line"),
    ],
};

const SERIES: LakeTable = LakeTable {
    name: "series",
    row: "one metric of a collector in one hour; metrics that no incident is judged by are left \
         out",
    own: &[
        required_column("hour", Time, "when the hour begins"),
        CLOCK,
        required_column("collector", Text, "`sysstat`, `atop`, `pcp`, `recorder`, ..."),
        required_column("metric", Text, "its name, ending in the unit"),
        required_column("samples", Integer, "samples in that hour that have it"),
        required_column("least", Number, "the smallest"),
        required_column("mean", Number, "their mean"),
        required_column("most", Number, "the largest"),
    ],
};

const FAILURES: LakeTable = LakeTable {
    name: "failures",
    row: "one path that could not be read, or not completely, or one host of `--expect` that is \
         missing",
    own: &[
        required_column(
            "path",
            Text,
            "the path that was given, or found below it; the name of a host that is missing",
        ),
        required_column(
            "class",
            Text,
            "`denied`, `not_a_capture`, `torn`, `too_large`, `unreadable`, `defect`; for a host \
                 that was expected: `absent`, `stale`",
        ),
        required_column("message", Text, "what went wrong"),
        required_column("failed_at", Time, "when it was tried"),
        required_column(
            "rows_kept",
            Flag,
            "whether what could be read is in the other tables, as it is for a torn capture",
        ),
    ],
};

/// docs/schema/tables.md.
pub fn render_schema_page() -> String {
    let mut text = format!(
        "# Fleet tables\n\n\
         `hugewise collect PATH... --out LAKE` writes these tables, version {VERSION}. Within a \
             version, columns are only \
         added at the end of a table, never changed. This page is generated from the code that \
             writes them.\n\n\
         A table is a folder of Parquet files: \
             `LAKE/TABLE/day=2026-11-25/bucket=07/part-....parquet`. `day` is the day of \
         `captured_at` in UTC (in `failures` that of `failed_at`); it is \
             `__HIVE_DEFAULT_PARTITION__`, which SQL engines \
         read as null, if a capture does not say when it was made. `bucket` is 00 to {:02}, the \
             same for all captures of \
         a host; engines disagree on whether it is a number. Both are only in the path: with hive \
             partitioning they become \
         columns. A table without rows has no folder. Times are in UTC, \
         sizes in bytes, and a fact that is not known is null, never zero. So is a number that no \
             machine can have: more than 4 PiB of \
         memory, or a time before 1970 or after 9998.\n\n\
         Each row is there once, whatever was killed or tried again. `LAKE/_manifest` says which \
             captures are in \
         the tables; leave it alone. A host that was captured twice has its rows twice, with \
             different values of `capture`: take \
         the latest `captured_at`. Rows of `incidents` and `series` belong to one day of a host: \
             `capture` identifies what its \
         archives say about that day, and `captured_at` is how far into the day they reach. A day \
             that was collected before it ended appears \
         again when it is collected later: take the latest `captured_at` of each host, day, and \
             in `series` collector.\n",
        BUCKETS - 1
    );
    render_table_section(&mut text, "In every table", "", COMMON);
    for table in TABLES {
        render_table_section(
            &mut text,
            table.name,
            &format!("Each row is {}.\n\n", table.row),
            table.own,
        );
    }
    text
}

fn render_table_section(text: &mut String, title: &str, row: &str, columns: &[LakeColumn]) {
    let _ = write!(
        text,
        "\n## {title}\n\n{row}| column | type | null | what it is |\n| --- | --- | --- | --- |\n"
    );
    for column in columns {
        let LakeColumn { name, kind, optional, what } = column;
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
        assert_eq!(
            committed,
            super::render_schema_page(),
            "docs/schema/tables.md is stale: run `cargo xtask docs`"
        );
    }
}
