//! Kinds of servers.

use std::fmt;

/// A kind of server, known by its name; its folder in `engines` has everything else.
///
/// The constants here sort in their order, other engines behind them by name, `Other` last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Engine {
    rank: u8,
    name: &'static str,
}

const LATER: u8 = 100;
const LAST: u8 = u8::MAX;

#[allow(
    non_upper_case_globals,
    reason = "they read as the variants that they stand for, in patterns too"
)]
impl Engine {
    /// Oracle Database, ASM and the management database.
    pub const Oracle: Self = Self { rank: 0, name: "oracle" };
    /// PostgreSQL and its derivatives.
    pub const PostgreSql: Self = Self { rank: 1, name: "postgresql" };
    /// MySQL and Percona Server.
    pub const MySql: Self = Self { rank: 2, name: "mysql" };
    /// MariaDB.
    pub const MariaDb: Self = Self { rank: 3, name: "mariadb" };
    /// A Java virtual machine.
    pub const Jvm: Self = Self { rank: 4, name: "jvm" };
    /// Redis.
    pub const Redis: Self = Self { rank: 5, name: "redis" };
    /// Valkey.
    pub const Valkey: Self = Self { rank: 6, name: "valkey" };
    /// MongoDB.
    pub const MongoDb: Self = Self { rank: 7, name: "mongodb" };
    /// QEMU, with or without KVM.
    pub const Qemu: Self = Self { rank: 8, name: "qemu" };
    /// Any other group of processes that shares a large segment.
    pub const Other: Self = Self { rank: LAST, name: "other" };

    /// An engine by its name on the command line and in JSON: lower case letters and digits.
    pub const fn from_name(name: &'static str) -> Self {
        Self { rank: LATER, name }
    }

    /// Name on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        self.name
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::Other
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
