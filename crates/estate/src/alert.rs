//! Alert logs: where each layout has them, and what a release writes of its pages at a start.

use std::fmt::Write as _;

use crate::KIB_IN_HUGE;
use crate::database::{Database, Kept, Kind, Pages};
use crate::machine::Machine;
use crate::memlock::Memlock;
use crate::segments::Segment;

/// Where an instance writes its alert log: up to 10.2 below BACKGROUND_DUMP_DEST, which installers set to `admin/SID/bdump` of
/// the base; from 11.1 on below `diag` of DIAGNOSTIC_DEST, which is the base unless something sets it; SAP has its own
/// (Administrator's Guide 11.1 to 19c, "Structure, Contents, and Location of the Automatic Diagnostic Repository"; Database
/// Reference, DIAGNOSTIC_DEST: `$ORACLE_HOME/log` where ORACLE_BASE is not set).
pub(crate) fn path(database: &Database) -> String {
    let (sid, home) = (&database.sid, database.home());
    if !database.is_release(&[11]) {
        return format!("{}/admin/{sid}/bdump/alert_{sid}.log", database.base());
    }
    let set = database.parameters.iter().find(|(name, _)| name == "diagnostic_dest").map(|(_, value)| value.clone());
    let of_sap = home.strip_prefix("/oracle/").and_then(|rest| rest.split_once('/'));
    let destination = match (set, of_sap) {
        (Some(set), _) => set.trim_matches('\'').to_owned(),
        (None, Some((system, _))) => format!("/oracle/{system}/saptrace"),
        (None, None) if home.contains("/product/") || database.kind != Kind::Rdbms => database.base(),
        (None, None) => format!("{home}/log"),
    };
    let (kind, name) = match database.kind {
        Kind::Asm => ("asm", "+asm".to_owned()),
        Kind::Management => ("rdbms", "_mgmtdb".to_owned()),
        // Of a cluster's database the instances have a number behind its name.
        Kind::Rdbms if database.clustered => {
            ("rdbms", sid.trim_end_matches(|c: char| c.is_ascii_digit()).to_lowercase())
        }
        Kind::Rdbms => ("rdbms", sid.to_lowercase()),
    };
    format!("{destination}/diag/{kind}/{name}/{sid}/trace/alert_{sid}.log")
}

/// The last start of an instance.
pub(crate) struct Start<'a> {
    pub(crate) database: &'a Database,
    pub(crate) segments: &'a [Segment],
    pub(crate) machine: &'a Machine,
}

impl Start<'_> {
    pub(crate) fn text(&self) -> String {
        let database = self.database;
        let stamp =
            if database.is_release(&[12, 2]) { "2026-03-02T07:01:12.345678+00:00" } else { "Mon Mar 02 07:01:12 2026" };
        let mut text = format!("{stamp}\nStarting ORACLE instance (normal)\n");
        if database.pages != Pages::Amm {
            if database.is_release(&[12]) {
                text += &self.table(stamp);
            } else if database.is_release(&[11, 2, 0, 3]) {
                text += &self.block();
            }
        }
        text += "System parameters with non-default values:\n";
        if database.kept == Kept::InAsm {
            let _ = writeln!(text, "  {:<24} = \"+DATA/{}/PARAMETERFILE/spfile.270.1\"", "spfile", database.sid);
        }
        for (name, value) in &database.parameters {
            let _ = writeln!(text, "  {name:<24} = {value}");
        }
        text + "PMON started with pid=2, OS id=4100 \nALTER DATABASE OPEN\n"
    }

    /// Pages of 2 MiB that it has, and that it was to have.
    fn pages(&self) -> (u64, u64) {
        let of = |segment: &&Segment| segment.kib().div_ceil(KIB_IN_HUGE);
        let sga = || self.segments.iter().filter(|segment| segment.file.is_none());
        let expected = match sga().next() {
            Some(_) => sga().map(|segment| of(&segment)).sum(),
            None => self.database.sga.div_ceil(KIB_IN_HUGE << 10),
        };
        (sga().filter(|segment| segment.huge).map(|segment| of(&segment)).sum(), expected)
    }

    /// 11.2.0.3 and 11.2.0.4; the latter says the memlock limit too.
    fn block(&self) -> String {
        let (used, expected) = self.pages();
        let (pool, mib) = (self.machine.pool, |pages: u64| pages * 2);
        let mut text = "****************** Large Pages Information *****************\n".to_owned();
        if self.database.is_release(&[11, 2, 0, 4]) {
            let memlock = match self.database.memlock {
                Memlock::Unlimited => "UNLIMITED".to_owned(),
                Memlock::Kib(kib) => format!("{kib} KB"),
            };
            text = format!(
                "************************ Large Pages Information *******************\nPer process system memlock (soft) limit = {memlock}\n"
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
            "\nTotal Shared Global Region in Large Pages = {} MB ({percent}%)\n\nLarge Pages used by this instance: {used} ({} MB)\n\
             Large Pages unused system wide = {} ({} MB)\nLarge Pages configured system wide = {pool} ({} MB)\n\
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
                "\nRECOMMENDATION:\n  Total Shared Global Region size is {} MB. For optimal performance,\n  prior to the next instance \
                 restart increase the number\n  of unused Large Pages by atleast {more} 2048 KB Large Pages ({} MB)\n  system wide to \
                 get 100% of the Shared\n  Global Region allocated with Large pages\n",
                mib(expected),
                mib(more)
            );
        }
        text + "********************************************************************\n"
    }

    /// From 12.1 on.
    fn table(&self, stamp: &str) -> String {
        let (used, expected) = self.pages();
        let memlock = match self.database.memlock {
            Memlock::Unlimited => "UNLIMITED".to_owned(),
            Memlock::Kib(kib) => format!("{kib}K"),
        };
        let pool = self.machine.pool;
        let small = (expected - used) * 512 + 4;
        format!(
            "{stamp}\nDump of system resources acquired for SHARED GLOBAL AREA (SGA) \n Per process system memlock (soft) limit = \
             {memlock}\n Expected per process system memlock (soft) limit to lock\n SHARED GLOBAL AREA (SGA) into memory: {}M\n\
             Available system pagesizes:\n  4K, 2048K \nSupported system pagesize(s):\n  PAGESIZE  AVAILABLE_PAGES  EXPECTED_PAGES  \
             ALLOCATED_PAGES  ERROR(s)\n        4K       Configured               4          {small:>6}        NONE\n     2048K          \
             {pool:>7}         {expected:>7}         {used:>7}        NONE\n",
            expected * 2
        )
    }
}
