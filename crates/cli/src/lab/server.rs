//! What the stand-in server of the lab is to be like.

use hugewise_lab::segment::Kind;
use hugewise_lab::standin::{PreTouch, Settings};
use hugewise_lab::touch::{Access, Order};
use hugewise_model::Bytes;

use crate::described::size;

/// The stand-in's settings.
#[derive(clap::Args)]
pub(crate) struct Server {
    /// Size of the shared segment.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1G")]
    pub(crate) segment: Bytes,
    /// Part of the segment that each session touches as it logs in.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) touch: u8,
    /// What the segment is.
    #[arg(long, value_enum, default_value_t = SegmentKind::SystemV)]
    kind: SegmentKind,
    /// Sessions touch all over the segment, not from its start on.
    #[arg(long)]
    random: bool,
    /// Sessions write to what they touch.
    #[arg(long)]
    write: bool,
    /// Spread the segment over all NUMA nodes.
    #[arg(long)]
    interleave: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SegmentKind {
    /// shmget, as Oracle takes it.
    SystemV,
    /// A shared mapping without a file, as PostgreSQL takes it.
    Mmap,
    /// A memory file.
    Memfd,
}

impl Server {
    /// As the lab has it; sessions touch all of it where `pre_touch` says so.
    pub(crate) fn settings(&self, pre_touch: PreTouch) -> Settings {
        Settings {
            kind: match self.kind {
                SegmentKind::SystemV => Kind::SystemV,
                SegmentKind::Mmap => Kind::AnonymousShared,
                SegmentKind::Memfd => Kind::Memfd,
            },
            pre_touch,
            interleave: self.interleave,
            touch: self.touch,
            order: if self.random { Order::Random } else { Order::Sequential },
            access: if self.write { Access::Write } else { Access::Read },
            ..Settings::new(self.segment)
        }
    }
}
