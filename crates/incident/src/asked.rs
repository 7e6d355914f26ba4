//! What an investigation is asked, how far it is, and why there is none.

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The zone of wall clocks: an IANA name, or an offset such as `+02:00`.
    pub zone: Option<String>,
    /// Nothing before: RFC 3339, `2026-11-21 08:00`, or `08:00` of the last day.
    pub from: Option<String>,
    /// Nothing after.
    pub to: Option<String>,
    /// How far clocks of hosts are ahead: `db2=+3s`, `db2=-0.5s`.
    pub offsets: Vec<String>,
    /// How far apart lines are that have no times, in seconds: `3`, or `3s`.
    pub interval: Option<String>,
    /// Hosts whose stories are wanted, by name, short or whole; all without any.
    pub hosts: Vec<String>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files read.
    pub read: usize,
    /// Files found so far.
    pub found: usize,
}

/// Why nothing could be investigated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A zone that this machine does not have.
    #[error("{0}: there is no such zone in /usr/share/zoneinfo; you can also give an offset such as +02:00")]
    Zone(String),
    /// An offset that no zone has.
    #[error("{0}: {1}")]
    Offset(String, String),
    /// What is no time.
    #[error("{0} is not a time; write 2026-11-21T08:00:00+01:00, \"2026-11-21 08:00\", 2026-11-21 or 08:00")]
    Time(String),
    /// What is no interval between lines.
    #[error("--interval {0}: give seconds, such as 3s, up to a day")]
    Interval(String),
    /// What is no offset of a host's clock.
    #[error("--offset {0}: give HOST=SECONDS, up to a day, such as db2=+3s if the clock of db2 is 3 s ahead")]
    HostOffset(String),
    /// An offset of the clock of a host that is not there.
    #[error("--offset {0}: no host of that name was read")]
    NoHost(String),
    /// A host that is asked for and is not there, and some that are.
    #[error("no host is named {0}; found {1}")]
    NotFound(String, String),
    /// A time that clocks pass over, or that is beyond them.
    #[error("not a time that a clock can show")]
    NoClock,
    /// The end of what is asked is not behind its beginning.
    #[error("--from is not before --to")]
    Backwards,
    /// Nothing was sampled in what is asked: the first and the last sample that there is.
    #[error("no sample is between --from and --to: the samples run from {0} to {1}")]
    Outside(String, String),
    /// Nothing was sampled at all.
    #[error("it has no samples")]
    NoSample,
    /// Where this host's collectors usually write there is nothing: these places.
    #[error("found no collector's archives here; looked for {0}. Name a file, a folder, a tar or a sosreport")]
    NoArchives(String),
    /// Nothing could be read of what was given or found, and why.
    #[error("{0}")]
    Nothing(String),
}
