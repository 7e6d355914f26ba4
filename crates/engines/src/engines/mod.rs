//! The engines, a folder each.

pub(crate) mod ase;
pub(crate) mod clickhouse;
pub(crate) mod db2;
pub(crate) mod hana;
pub mod informix;
pub mod jvm;
pub mod mongodb;
pub mod mysql;
pub mod oracle;
pub mod postgresql;
pub(crate) mod qemu;
pub mod redis;
pub(crate) mod sqlserver;
pub(crate) mod thp_only;
pub(crate) mod unrecognized;

use crate::EngineKind;

/// Every engine, in the order in which they are asked; the last takes what is left.
pub(crate) static KINDS: &[&EngineKind] = &[
    &oracle::KIND,
    &postgresql::KIND,
    &mysql::KIND,
    &jvm::KIND,
    &redis::KIND,
    &mongodb::KIND,
    &qemu::KIND,
    &db2::KIND,
    &hana::KIND,
    &sqlserver::KIND,
    &informix::KIND,
    &clickhouse::KIND,
    &ase::KIND,
    &thp_only::COCKROACH_KIND,
    &thp_only::TIDB_KIND,
    &thp_only::NUODB_KIND,
    &thp_only::COUCHBASE_KIND,
    &thp_only::ARANGODB_KIND,
    &thp_only::AEROSPIKE_KIND,
    &thp_only::SPLUNK_KIND,
    &unrecognized::KIND,
];
