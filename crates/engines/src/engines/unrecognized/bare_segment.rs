//! Bare System V segments, of which only the size is given.

use hugewise_host::Source;
use hugewise_model::instance::{Demand, DemandSource, Mechanism, Segment, SegmentKind};
use hugewise_model::{Engine, Host, HugePageMode, Instance, Observed};

use crate::EngineContext;
use crate::shared::described;
use crate::shared::description::{DescribeError, Described, Description};

/// A segment takes its size in whole pages: shmget with SHM_HUGETLB reserves them all at once.
pub(crate) fn describe_segment(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let Description::Segment { bytes } = description else {
        return Err(DescribeError::new("no segment size given", "give it with --segment 5GiB"));
    };
    if bytes.get() == 0 || bytes.get() >= 1 << 63 {
        let what = format!("a segment of {} bytes is not possible", bytes.get());
        return Err(DescribeError::new(
            what,
            "give a size of at least one byte and less than 8 EiB",
        ));
    }
    let scene = EngineContext::new(host, source);
    let page_size = described::page_size(host);
    let segment = Segment {
        kind: SegmentKind::SystemV,
        name: "segment".into(),
        size: *bytes,
        page_size: Observed::Absent,
        huge: Observed::Absent,
        mappers: 0,
        identity: (0, 0),
    };
    let demand = Demand {
        page_size,
        pages: page_size.pages_for(*bytes),
        source: DemandSource::Estimated { error_percent: 0 },
    };
    let instance =
        described::new_described_instance(&scene, Engine::Other, format!("segment of {bytes}"));
    Ok(Described::from(Instance {
        asked: HugePageMode::Must,
        asked_page_size: Observed::Known(page_size),
        mechanism: Mechanism::SysvShm,
        segments: vec![segment],
        demand: Some(demand),
        ..instance
    }))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{Bytes, PageCount, PageSize};

    use super::*;

    fn pages(bytes: u64, page: PageSize) -> Option<PageCount> {
        let host = Host { default_huge_page: Observed::Known(page), ..Host::default() };
        let described = describe_segment(
            &host,
            &MapSource::new(),
            &Description::Segment { bytes: Bytes(bytes) },
            false,
        )
        .ok()?;
        described.instance.demand.map(|demand| demand.pages)
    }

    #[test]
    fn a_segment_of_any_size_is_rounded_up() {
        assert_eq!(pages(5 << 30, PageSize::MIB_2), Some(PageCount(2560)));
        assert_eq!(pages((5 << 30) + 1, PageSize::MIB_2), Some(PageCount(2561)));
        assert_eq!(pages(1, PageSize::GIB_1), Some(PageCount(1)));
        assert_eq!(pages((1 << 63) - 1, PageSize::GIB_1), Some(PageCount(1 << 33)));
        assert_eq!((pages(0, PageSize::MIB_2), pages(1 << 63, PageSize::MIB_2)), (None, None));
    }
}
