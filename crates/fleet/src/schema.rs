//! The tables: what they are called, their columns, and the page that documents them.

use std::fmt::Write;

use hugewise_report::parquet::ColumnKind;

/// Version of the tables. Within one version columns are added at the end, never changed.
pub const VERSION: i64 = 1;

/// Parts of a day, by the host's name.
pub(crate) const BUCKETS: u8 = 16;

const fn sql_type(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Text => "VARCHAR",
        ColumnKind::Integer => "BIGINT",
        ColumnKind::Number => "DOUBLE",
        ColumnKind::Flag => "BOOLEAN",
        ColumnKind::Time => "TIMESTAMP WITH TIME ZONE",
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct LakeColumn {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether it may be null: a fact that is not known, or that there is not.
    pub optional: bool,
    /// What that is.
    pub what: &'static str,
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

macro_rules! columns {
    ($($name:ident: $kind:ident $(or $null:ident)?, $what:expr;)*) => {
        &[$(LakeColumn {
            name: stringify!($name),
            kind: ColumnKind::$kind,
            optional: !stringify!($($null)?).is_empty(),
            what: $what,
        }),*]
    };
}

/// Columns that every table begins with.
pub const COMMON: &[LakeColumn] = columns! {
    schema_version: Integer, "version of these tables";
    capture: Text, "SHA-256 of the capture; the same in all tables, so join on it";
    host: Text or null, "name that the host gives itself; null if its capture has none";
    cluster: Text or null, "the value of `--label`";
    captured_at: Time or null, "when the facts were read on the host";
};

const ENGINE: &str = "kind of server: `oracle`, `postgresql`, ...";
const NAME: &str = "its name, unique among the engine's instances on the host";

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
    own: columns! {
        path: Text, "where the capture was found";
        os: Text or null, "operating system";
        kernel: Text or null, "kernel release";
        architecture: Text or null, "`uname -m`";
        processors: Integer or null, "online processors";
        base_page_bytes: Integer or null, "size of a base page";
        default_huge_page_bytes: Integer or null,
            "default size of a huge page, for programs that name none";
        memory_bytes: Integer or null, "`MemTotal`";
        memory_free_bytes: Integer or null, "`MemFree`";
        memory_available_bytes: Integer or null, "`MemAvailable`";
        swap_total_bytes: Integer or null, "`SwapTotal`";
        swap_used_bytes: Integer or null, "swap in use";
        page_tables_bytes: Integer or null, "page tables of all processes";
        thp_enabled: Text or null, "transparent huge pages: `always`, `madvise`, `never`";
        thp_defrag: Text or null, "when an allocation may wait for compaction";
        thp_shmem_enabled: Text or null, "the switch for shared memory";
        instances: Integer, "database servers on the host, running or not";
        errors: Integer, "findings that hurt now, or will at the next start";
        warnings: Integer, "findings that will hurt under load";
        infos: Integer, "findings worth knowing";
        undecided_rules: Integer, "verdicts that are missing because facts are";
        unread_facts: Integer, "facts that exist but could not be read";
        torn: Text or null, "where the capture breaks off; null if it is whole";
    },
};

const POOLS: LakeTable = LakeTable {
    name: "pools",
    row: "the huge pages of one size, on a whole host or on one of its NUMA nodes",
    own: columns! {
        page_bytes: Integer, "page size";
        node: Integer or null, "NUMA node; null for the whole host, so filter by it before you sum";
        total_pages: Integer or null, "pages in the pool";
        free_pages: Integer or null, "free pages, including the reserved ones";
        reserved_pages: Integer or null,
            "pages reserved but not yet touched; for the whole host only";
        surplus_pages: Integer or null, "pages above the configured number";
        overcommit_pages: Integer or null,
            "surplus pages that the pool may take on demand; for the whole host only";
        committed_pages: Integer or null, "total - free + reserved; for the whole host only";
        available_pages: Integer or null, "free - reserved; for the whole host only";
        room_pages: Integer or null,
            "pages that free memory outside of the pool has room for in one piece: so many it can \
             get at most without the kernel moving memory";
    },
};

const INSTANCES: LakeTable = LakeTable {
    name: "instances",
    row: "one database server on a host",
    own: columns! {
        engine: Text, ENGINE;
        instance: Text, NAME;
        running: Flag, "whether it is running";
        version: Text or null, "server version";
        owner: Text, "operating system user";
        unit: Text or null, "the systemd service that it runs in";
        containered: Flag, "whether it runs in another mount namespace than hugewise";
        sessions: Integer or null, "client sessions now";
        max_sessions: Integer or null, "sessions that the settings allow";
        asked: Text,
            "whether the settings ask for huge pages: `no`, `try`, `must`, `raises`, `cannot`, \
             `unknown`";
        setting: Text or null, "the setting that decides it, with its file and line";
        huge_pages: Text,
            "how much of its memory is on huge pages: `all`, `partly`, `none`, `unknown`";
        demand_page_bytes: Integer or null, "size of the pages that it needs";
        demand_pages: Integer or null, "pages that it needs to be wholly on huge pages";
        demand_source: Text or null, "how that is known: `engine`, `measured`, `estimated`";
        page_tables_bytes: Integer or null, "page tables of all its processes";
        at_max_sessions: Integer or null,
            "the largest number of sessions; the next two columns are for it";
        at_max_base_page_tables_bytes: Integer or null,
            "page tables expected then, with its memory on base pages";
        at_max_huge_page_tables_bytes: Integer or null,
            "page tables expected then, with its memory on pages of `demand_page_bytes`";
        saved_bytes: Integer or null,
            "how much of `page_tables_bytes` huge pages would save: 0 if it is on huge pages \
             already, or has nothing that a pool could hold";
        saved_at_max_bytes: Integer or null,
            "the same with the largest number of sessions; where that is not known, with those of \
             now";
        touched_bytes: Integer or null, "how much of its segments has been touched, at most";
        memlock_bytes: Integer or null, "soft memlock limit; null if it is unlimited or not known";
        segments: Integer, "stretches of memory that huge pages could back";
        segments_bytes: Integer, "their size as mapped";
    },
};

const MOMENTS: LakeTable = LakeTable {
    name: "moments",
    row: "how an instance stands at one moment; an instance has three or none",
    own: columns! {
        engine: Text, ENGINE;
        instance: Text, NAME;
        moment: Text,
            "`now`, `restart` (of this server alone) or `reboot` (of the host, with its servers \
             in the worst order)";
        state: Text,
            "`all`, `partly`, `none`, `does_not_start`, `not_running`, `unknown`, `not_counted`";
        why: Text or null, "the evidence for that; null if there is nothing to say";
    },
};

const CASES: LakeTable = LakeTable {
    name: "cases",
    row: "one cause, with what follows from it",
    own: columns! {
        case_number: Integer, "from 0, worst first";
        level: Text, "the worst level in the case: `error`, `warn`, `info`";
        code: Text, "code of the rule that is the cause; `hugewise rules` lists them";
        name: Text, "its name: `no-pool`";
        instance_title: Text or null, "`oracle PROD`; null for the host as a whole";
        summary: Text, "one sentence";
        cost: Text, "what it costs";
        symptoms: Integer, "findings that follow from it";
        symptom_codes: Text or null, "their rules, separated by blanks; null if there are none";
    },
};

const FINDINGS: LakeTable = LakeTable {
    name: "findings",
    row: "one rule's verdict",
    own: columns! {
        finding_number: Integer, "from 0, worst first";
        case_number: Integer or null, "the case that it belongs to";
        is_cause: Flag, "whether it is the cause of that case";
        level: Text, "`error`, `warn`, `info`";
        code: Text, "code of the rule; `hugewise rules` lists them";
        name: Text, "`no-pool`";
        instance_title: Text or null, "`oracle PROD`; null for the host as a whole";
        summary: Text, "one sentence";
        evidence: Text, "facts that it is based on, one per line";
        cost: Text or null, "what it costs; null if no number is known";
        fix: Text, "what ends it, in words, one per line";
    },
};

const CLOCK: &str =
    "`utc`, or `wall` if the archive has the host's wall clock and does not give its zone";

const INCIDENTS: LakeTable = LakeTable {
    name: "incidents",
    row: "one incident that `hugewise investigate` finds in the archives of a host's collectors, \
         under the day on which it began",
    own: columns! {
        began_at: Time, "when it began";
        ended_at: Time, "when it ended";
        clock: Text, CLOCK;
        verdict: Text, "the verdict: `reclaim-by-page-tables`, `login-storm`, ...";
        confidence: Text, "how certain that is: `high`, `medium`, `low`";
        summary: Text, "the same as a sentence with its figures";
        signatures: Text, "kinds of trouble that coincide in it, one per line";
        who: Text or null,
            "programs that grew or were stuck, one per line; null if no source lists processes";
        elsewhere: Text or null, "the same on other hosts at the same time, one per line";
        other_days: Text or null,
            "whether it was there at the same hours of other days, one per line";
        next: Text or null, "what to do next, one per line";
    },
};

const SERIES: LakeTable = LakeTable {
    name: "series",
    row: "one metric of a collector in one hour; metrics that no incident is judged by are left \
         out",
    own: columns! {
        hour: Time, "when the hour begins";
        clock: Text, CLOCK;
        collector: Text, "`sysstat`, `atop`, `pcp`, `recorder`, ...";
        metric: Text, "its name, ending in the unit";
        samples: Integer, "samples in that hour that have it";
        least: Number, "the smallest";
        mean: Number, "their mean";
        most: Number, "the largest";
    },
};

const FAILURES: LakeTable = LakeTable {
    name: "failures",
    row: "one path that could not be read, or not completely, or one host of `--expect` that is \
         missing",
    own: columns! {
        path: Text,
            "the path that was given, or found below it; the name of a host that is missing";
        class: Text,
            "`denied`, `not_a_capture`, `torn`, `too_large`, `unreadable`, `defect`; for a host \
             that was expected: `absent`, `stale`";
        message: Text, "what went wrong";
        failed_at: Time, "when it was tried";
        rows_kept: Flag,
            "whether what could be read is in the other tables, as it is for a torn capture";
    },
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
        let _ = writeln!(text, "| `{name}` | {} | {null} | {what} |", sql_type(*kind));
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
