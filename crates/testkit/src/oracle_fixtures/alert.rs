//! Alert logs: where each layout has them, and what a release writes of its pages at a start.

use std::fmt::Write as _;

use super::KIB_IN_HUGE;
use super::database::{Database, DatabaseKind, ParameterStore, SgaPages};
use super::machine::FixtureMachine;
use super::memlock::FixtureMemlock;
use super::segments::FixtureSegment;

/// Where an instance writes its alert log: up to 10.2 below BACKGROUND_DUMP_DEST, which installers
/// set to `admin/SID/bdump` of the base; from 11.1 on below `diag` of DIAGNOSTIC_DEST, which is the
/// base unless something sets it; SAP has its own (Administrator's Guide 11.1 to 19c, "Structure,
/// Contents, and Location of the Automatic Diagnostic Repository"; Database Reference,
/// DIAGNOSTIC_DEST: `$ORACLE_HOME/log` where ORACLE_BASE is not set).
pub(crate) fn alert_log_path(database: &Database) -> String {
    let (sid, home) = (&database.sid, database.home());
    if !database.is_release(&[11]) {
        return format!("{}/admin/{sid}/bdump/alert_{sid}.log", database.base());
    }
    let set = database
        .parameters
        .iter()
        .find(|(name, _)| name == "diagnostic_dest")
        .map(|(_, value)| value.clone());
    let of_sap = home.strip_prefix("/oracle/").and_then(|rest| rest.split_once('/'));
    let destination = match (set, of_sap) {
        (Some(set), _) => set.trim_matches('\'').to_owned(),
        (None, Some((system, _))) => format!("/oracle/{system}/saptrace"),
        (None, None) if home.contains("/product/") || database.kind != DatabaseKind::Rdbms => {
            database.base()
        }
        (None, None) => format!("{home}/log"),
    };
    let (kind, name) = match database.kind {
        DatabaseKind::Asm => ("asm", "+asm".to_owned()),
        DatabaseKind::Management => ("rdbms", "_mgmtdb".to_owned()),
        // Of a cluster's database the instances have a number behind its name.
        DatabaseKind::Rdbms if database.clustered => (
            "rdbms",
            sid.trim_end_matches(|character: char| character.is_ascii_digit()).to_lowercase(),
        ),
        DatabaseKind::Rdbms => ("rdbms", sid.to_lowercase()),
    };
    format!("{destination}/diag/{kind}/{name}/{sid}/trace/alert_{sid}.log")
}

/// The last start of an instance.
pub(crate) struct AlertLogStart<'a> {
    pub(crate) database: &'a Database,
    pub(crate) segments: &'a [FixtureSegment],
    pub(crate) machine: &'a FixtureMachine,
}

impl AlertLogStart<'_> {
    pub(crate) fn render_alert_log(&self) -> String {
        let database = self.database;
        let stamp = if database.is_release(&[12, 2]) {
            "2026-03-02T07:01:12.345678+00:00"
        } else {
            "Mon Mar 02 07:01:12 2026"
        };
        let mut text = format!("{stamp}\nStarting ORACLE instance (normal)\n");
        if database.pages != SgaPages::Amm {
            if database.is_release(&[12]) {
                text += &self.render_pages_table(stamp);
            } else if database.is_release(&[11, 2, 0, 3]) {
                text += &self.render_pages_block();
            }
        }
        text += "System parameters with non-default values:\n";
        if database.kept == ParameterStore::InAsm {
            let _ = writeln!(
                text,
                "  {:<24} = \"+DATA/{}/PARAMETERFILE/spfile.270.1\"",
                "spfile", database.sid
            );
        }
        for (name, value) in &database.parameters {
            let _ = writeln!(text, "  {name:<24} = {value}");
        }
        text + "PMON started with pid=2, OS id=4100 \nALTER DATABASE OPEN\n"
    }

    /// Pages of 2 MiB that it has, and that it was to have.
    fn huge_pages_used(&self) -> (u64, u64) {
        let count_of = |segment: &&FixtureSegment| segment.size_kib().div_ceil(KIB_IN_HUGE);
        let sga = || self.segments.iter().filter(|segment| segment.file.is_none());
        let expected = match sga().next() {
            Some(_) => sga().map(|segment| count_of(&segment)).sum(),
            None => self.database.sga.div_ceil(KIB_IN_HUGE << 10),
        };
        (sga().filter(|segment| segment.huge).map(|segment| count_of(&segment)).sum(), expected)
    }

    /// 11.2.0.3 and 11.2.0.4; the latter says the memlock limit too.
    fn render_pages_block(&self) -> String {
        let (used, expected) = self.huge_pages_used();
        let (pool, mib) = (self.machine.pool, |pages: u64| pages * 2);
        let mut text = "****************** Large Pages Information *****************\n".to_owned();
        if self.database.is_release(&[11, 2, 0, 4]) {
            let memlock = match self.database.memlock {
                FixtureMemlock::Unlimited => "UNLIMITED".to_owned(),
                FixtureMemlock::Kib(kib) => format!("{kib} KB"),
            };
            text = format!(
                "************************ Large Pages Information *******************\nPer \
                     process system memlock (soft) limit = {memlock}\n"
            );
        }
        if self
            .database
            .parameters
            .iter()
            .any(|(name, value)| name == "use_large_pages" && value.eq_ignore_ascii_case("only"))
        {
            text += "Parameter use_large_pages = ONLY\n";
        }
        let percent = (used * 100).checked_div(expected).unwrap_or_default();
        let _ = write!(
            text,
            "\nTotal Shared Global Region in Large Pages = {} MB ({percent}%)\n\nLarge Pages used \
                 by this instance: {used} ({} MB)\n\
             Large Pages unused system wide = {} ({} MB)\nLarge Pages configured system wide = \
                 {pool} ({} MB)\n\
             Large Page size = 2048 KB\n",
            mib(used),
            mib(used),
            pool.saturating_sub(used),
            mib(pool.saturating_sub(used)),
            mib(pool)
        );
        if used < expected {
            let more = expected - used;
            let _ = write!(
                text,
                "\nRECOMMENDATION:\n  Total Shared Global Region size is {} MB. For optimal \
                     performance,\n  prior to the next instance \
                 restart increase the number\n  of unused Large Pages by atleast {more} 2048 KB \
                     Large Pages ({} MB)\n  system wide to \
                 get 100% of the Shared\n  Global Region allocated with Large pages\n",
                mib(expected),
                mib(more)
            );
        }
        text + "********************************************************************\n"
    }

    /// From 12.1 on.
    fn render_pages_table(&self, stamp: &str) -> String {
        let (used, expected) = self.huge_pages_used();
        let memlock = match self.database.memlock {
            FixtureMemlock::Unlimited => "UNLIMITED".to_owned(),
            FixtureMemlock::Kib(kib) => format!("{kib}K"),
        };
        let pool = self.machine.pool;
        let small = (expected - used) * 512 + 4;
        format!(
            "{stamp}\nDump of system resources acquired for SHARED GLOBAL AREA (SGA) \n Per \
                 process system memlock (soft) limit = \
             {memlock}\n Expected per process system memlock (soft) limit to lock\n SHARED GLOBAL \
                 AREA (SGA) into memory: {}M\n\
             Available system pagesizes:\n  4K, 2048K \nSupported system \
                 pagesize(s):\n  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  \
             ALLOCATED_PAGES  ERROR(s)\n        4K       Configured               4          {small:>6}        NONE\n     2048K          \
             {pool:>7}         {expected:>7}         {used:>7}        NONE\n",
            expected * 2
        )
    }
}
