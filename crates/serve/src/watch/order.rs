//! The order of instances.

use std::cmp::Ordering;

use super::frame::InstanceRow;

/// What instances are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Engine and name.
    Name,
    /// Client sessions.
    Sessions,
    /// Memory that huge pages could back.
    Segments,
    /// Of that, memory on base pages: what huge pages would still help.
    Base,
    /// Page tables of all processes.
    #[default]
    PageTables,
    /// Page tables for each session.
    ASession,
}

impl Order {
    /// The next one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Name => Self::Sessions,
            Self::Sessions => Self::Segments,
            Self::Segments => Self::Base,
            Self::Base => Self::PageTables,
            Self::PageTables => Self::ASession,
            Self::ASession => Self::Name,
        }
    }

    /// What it is called.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Sessions => "sessions",
            Self::Segments => "segments",
            Self::Base => "memory on base pages",
            Self::PageTables => "page tables",
            Self::ASession => "page tables a session",
        }
    }

    /// Sorts them: names from A on, numbers from the largest down, each the other way round where `reversed`. Those
    /// without a number come last in any case, and equal ones are sorted by name.
    pub fn sort(self, rows: &mut [&InstanceRow], reversed: bool) {
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

    fn sorted(order: Order, reversed: bool) -> String {
        let rows = [
            InstanceRow { sessions: Some(5), ..instance("b") },
            InstanceRow { sessions: None, ..instance("a") },
            InstanceRow { sessions: Some(7), ..instance("d") },
            InstanceRow { sessions: Some(5), ..instance("c") },
        ];
        let mut rows: Vec<&InstanceRow> = rows.iter().collect();
        order.sort(&mut rows, reversed);
        rows.iter().map(|row| row.title.as_str()).collect()
    }

    #[test]
    fn what_is_not_told_comes_last() {
        assert_eq!(sorted(Order::Sessions, false), "dbca");
        assert_eq!(sorted(Order::Sessions, true), "bcda");
        assert_eq!(sorted(Order::Name, false), "abcd");
        assert_eq!(sorted(Order::Name, true), "dcba");
    }

    #[test]
    fn every_order_is_reached() {
        let mut order = Order::default();
        let labels: Vec<&str> = (0..6)
            .map(|_| {
                order = order.next();
                order.label()
            })
            .collect();
        assert_eq!(order, Order::default());
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), labels.len(), "{labels:?}");
    }
}
