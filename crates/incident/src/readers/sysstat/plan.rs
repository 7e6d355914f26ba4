//! Where everything is in a record of statistics: the same in all records until an activity counts other items.

use super::activity::{Activity, Content, Place};
use super::bytes::u32_at;
use super::record::LONGEST;
use super::window::Window;

/// Of one record, from where its statistics begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Of all its statistics; 0 where nothing is known.
    pub(super) length: usize,
    /// Where items are counted, and how many there are.
    counts: Vec<(usize, u32)>,
    /// The fields that are read, in the order of activities; `None` where there is no item.
    pub(super) fields: Vec<Option<Place>>,
    pub(super) processors: Vec<Processors>,
}

/// Where the items of processors are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processors {
    pub(super) place: usize,
    /// Of an item.
    pub(super) length: usize,
    pub(super) items: usize,
    /// As [`Content::Processors`] has them.
    pub(super) fields: usize,
    pub(super) apart: usize,
}

impl Plan {
    /// Of the record whose statistics begin `at`; `None` where they make no sense or end too early.
    pub(super) fn of(activities: &[Activity], window: &mut Window<'_>, at: usize) -> Option<Self> {
        let mut plan = Self::default();
        for activity in activities {
            let mut items = activity.items;
            if activity.counted {
                let here = at.checked_add(plan.length)?;
                if !window.reach(here.checked_add(4)?) {
                    return None;
                }
                items = u32_at(window.bytes(), here)?;
                plan.counts.push((plan.length, items));
                plan.length += 4;
            }
            let place = plan.length;
            let number = usize::try_from(items).ok()?;
            let length = activity.length.checked_mul(number)?;
            plan.length = place.checked_add(length).filter(|end| *end <= LONGEST && activity.bounded(items))?;
            match &activity.content {
                Content::Skipped => {}
                Content::Fields(fields) => plan.fields.extend(fields.iter().map(|field| field.place(place, length))),
                Content::Processors { fields, apart } => plan.processors.push(Processors {
                    place,
                    length: activity.length,
                    items: number,
                    fields: *fields,
                    apart: *apart,
                }),
            }
        }
        Some(plan)
    }

    /// Whether statistics, of its length, are laid out like that.
    pub(super) fn fits(&self, statistics: &[u8]) -> bool {
        self.counts.iter().all(|(place, items)| u32_at(statistics, *place) == Some(*items))
    }
}
