//! The settings of the lab's stand-in server.

use hugewise_lab::fake_server::{FakeServerSettings, LargePagePolicy, PreTouch};
use hugewise_lab::segment::SegmentSource;
use hugewise_lab::touch::{TouchAccess, TouchOrder};
use hugewise_lab::variant::Variant;
use hugewise_model::Bytes;

use super::{Common, usual_pages};
use crate::described_servers::parse_size;
use crate::outcome::CommandFailure;

/// The stand-in's settings.
#[derive(clap::Args)]
pub(crate) struct LabServerArguments {
    /// Size of the shared segment.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    pub(crate) segment: Bytes,
    /// Percentage of the segment that each session touches when it logs in.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) touch: u8,
    /// Kind of segment.
    #[arg(long, value_enum, default_value_t = LabSegmentKind::SystemV)]
    kind: LabSegmentKind,
    /// Sessions touch pages spread over the segment instead of from its start.
    #[arg(long)]
    random: bool,
    /// Sessions write to what they touch.
    #[arg(long)]
    write: bool,
    /// Spread the segment over all NUMA nodes.
    #[arg(long)]
    interleave: bool,
    /// On pages of a pool: what the server does if the pool is too small. The values are those of
    /// Oracle's `use_large_pages`.
    #[arg(long, value_enum, default_value_t = PoolPolicy::Auto)]
    policy: PoolPolicy,
    /// Who touches the segment before any work starts. Default: the server, and in lab logins with
    /// --touch 100 every session too.
    #[arg(long, value_enum, value_name = "WHO")]
    pre_touch: Option<Who>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PoolPolicy {
    /// Grow the pool first, and restore it afterwards.
    Auto,
    /// Use the pool as it is. If the whole segment doesn't fit, the server doesn't start.
    Only,
    /// Use the pool as it is, and base pages for the rest.
    True,
    /// Use base pages, whatever --pages says.
    False,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Who {
    /// Nobody.
    None,
    /// The server once, when it makes the segment.
    Creator,
    /// The server, and every session as it logs in: each touches all of it, like `pre_page_sga` in
    /// Oracle 11.2.
    Session,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LabSegmentKind {
    /// System V shared memory (shmget), as Oracle uses it.
    SystemV,
    /// A shared mapping without a file, as PostgreSQL uses it.
    Mmap,
    /// A memory file.
    Memfd,
}

impl LabServerArguments {
    pub(crate) fn compared_pages(&self, common: &Common) -> Result<Vec<Variant>, CommandFailure> {
        if self.policy != PoolPolicy::False {
            return Ok(common.pages_or(usual_pages()));
        }
        let pages = common.pages_or(vec![Variant::Base]);
        match pages.iter().find(|pages| pages.pool_page_size().is_some()) {
            Some(huge) => Err(CommandFailure::new(format!(
                "--policy false leaves the segment on base pages, not on {huge}"
            ))),
            None => Ok(pages),
        }
    }

    /// `usual` holds unless another pre-touch was asked for.
    pub(crate) fn server_settings(&self, usual: PreTouch) -> FakeServerSettings {
        FakeServerSettings {
            kind: match self.kind {
                LabSegmentKind::SystemV => SegmentSource::SystemV,
                LabSegmentKind::Mmap => SegmentSource::AnonymousShared,
                LabSegmentKind::Memfd => SegmentSource::Memfd,
            },
            pre_touch: self.pre_touch.map_or(usual, |who| match who {
                Who::None => PreTouch::None,
                Who::Creator => PreTouch::Creator,
                Who::Session => PreTouch::Sessions,
            }),
            policy: match self.policy {
                PoolPolicy::Auto => LargePagePolicy::Auto,
                PoolPolicy::Only => LargePagePolicy::Only,
                PoolPolicy::True => LargePagePolicy::True,
                PoolPolicy::False => LargePagePolicy::False,
            },
            interleave: self.interleave,
            touch: self.touch,
            order: if self.random { TouchOrder::Random } else { TouchOrder::Sequential },
            access: if self.write { TouchAccess::Write } else { TouchAccess::Read },
            ..FakeServerSettings::new(self.segment)
        }
    }
}
