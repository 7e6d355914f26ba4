//! What an investigation is asked, how far it is, and why there is none.

/// What an investigation is asked.
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

/// How far an investigation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InvestigationProgress {
    /// Files read.
    pub read: usize,
    /// Files found so far.
    pub found: usize,
}

/// Why nothing could be investigated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A zone that this machine does not have.
    #[error(
        "{0}: there is no such zone in /usr/share/zoneinfo; you can also give an offset such as \
             +02:00"
    )]
    Zone(String),
    /// An offset that no zone has.
    #[error("{0}: {1}")]
    Offset(String, String),
    /// Text that is no time.
    #[error(
        "{0} is not a time; write 2026-11-21T08:00:00+01:00, \"2026-11-21 08:00\", 2026-11-21 or \
             08:00"
    )]
    Time(String),
    /// Text that is no interval between lines.
    #[error("--interval {0}: give seconds, such as 3s, up to a day")]
    Interval(String),
    /// Text that is no offset of a host's clock.
    #[error(
        "--offset {0}: give HOST=SECONDS, up to a day, such as db2=+3s if the clock of db2 is 3 s \
             ahead"
    )]
    HostOffset(String),
    /// An offset for the clock of a host that was not read.
    #[error("--offset {0}: no host of that name was read")]
    NoHost(String),
    /// A host that is asked for and was not read, and some that were.
    #[error("no host is named {0}; found {1}")]
    NotFound(String, String),
    /// A time that clocks skip, or that is beyond them.
    #[error("not a time that a clock can show")]
    NoClock,
    /// The end of the time asked for is not after its beginning.
    #[error("--from is not before --to")]
    Backwards,
    /// No sample in the time asked for: the first and the last sample that there is.
    #[error("no sample is between --from and --to: the samples run from {0} to {1}")]
    Outside(String, String),
    /// No sample at all.
    #[error("it has no samples")]
    NoSample,
    /// Nothing in the places where this host's collectors usually write.
    #[error(
        "found no collector's archives here; looked for {0}. Name a file, a folder, a tar or a \
             sosreport"
    )]
    NoArchives(String),
    /// Nothing of what was given or found could be read, and why.
    #[error("{0}")]
    Nothing(String),
}
