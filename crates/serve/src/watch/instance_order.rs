//! The order of instances.

use std::cmp::Ordering;

use super::frame::InstanceRow;

hugewise_model::named_enum! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum InstanceOrder label {
        Name = "name",
        Sessions = "sessions",
        Segments = "segments",
        /// On base pages: what huge pages would still help.
        Base = "memory on base pages",
        #[default]
        PageTables = "page tables",
        ASession = "page tables a session",
    }
}

impl InstanceOrder {
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Name => Self::Sessions,
            Self::Sessions => Self::Segments,
            Self::Segments => Self::Base,
            Self::Base => Self::PageTables,
            Self::PageTables => Self::ASession,
            Self::ASession => Self::Name,
        }
    }

    /// Names from A on, numbers from the largest down, or `reversed`; rows without a number last.
    pub(crate) fn sort_rows(self, rows: &mut [&InstanceRow], reversed: bool) {
        let number = |row: &InstanceRow| match self {
            Self::Name => Some(0),
            Self::Sessions => row.sessions,
            Self::Segments => Some(row.segments.get()),
            Self::Base => Some(row.segments.get().saturating_sub(row.huge.get())),
            Self::PageTables => row.page_tables.map(hugewise_model::Bytes::get),
            Self::ASession => row.page_tables_a_session().map(hugewise_model::Bytes::get),
        };
        let turned = |order: Ordering| if reversed { order.reverse() } else { order };
        rows.sort_by(|one, other| {
            let by_number = match (number(one), number(other)) {
                (Some(one), Some(other)) => turned(other.cmp(&one)),
                (one, other) => other.is_some().cmp(&one.is_some()),
            };
            let by_name = one.title.cmp(&other.title);
            by_number.then(if self == Self::Name { turned(by_name) } else { by_name })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::instance;
    use super::*;

    fn sorted(order: InstanceOrder, reversed: bool) -> String {
        let rows = [
            InstanceRow { sessions: Some(5), ..instance("b") },
            InstanceRow { sessions: None, ..instance("a") },
            InstanceRow { sessions: Some(7), ..instance("d") },
            InstanceRow { sessions: Some(5), ..instance("c") },
        ];
        let mut rows: Vec<&InstanceRow> = rows.iter().collect();
        order.sort_rows(&mut rows, reversed);
        rows.iter().map(|row| row.title.as_str()).collect()
    }

    #[test]
    fn what_is_not_told_comes_last() {
        assert_eq!(sorted(InstanceOrder::Sessions, false), "dbca");
        assert_eq!(sorted(InstanceOrder::Sessions, true), "bcda");
        assert_eq!(sorted(InstanceOrder::Name, false), "abcd");
        assert_eq!(sorted(InstanceOrder::Name, true), "dcba");
    }

    #[test]
    fn every_order_is_reached() {
        let mut order = InstanceOrder::default();
        let labels: Vec<&str> = (0..6)
            .map(|_| {
                order = order.next();
                order.label()
            })
            .collect();
        assert_eq!(order, InstanceOrder::default());
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), labels.len(), "{labels:?}");
    }
}
