//! The layout of a statistics record, constant until an activity's number of items changes.

use super::activity::{Activity, ActivityContent, FieldLocation};
use super::record::LONGEST;
use super::window::StreamWindow;
use crate::readers::bytes::u32_at;

/// Places are relative to the beginning of the statistics.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordPlan {
    /// Bytes of all statistics; 0 where nothing is known.
    pub(super) length: usize,
    counts: Vec<(usize, u32)>,
    /// The fields that are read, in the order of activities; `None` without an item.
    pub(super) fields: Vec<Option<FieldLocation>>,
    pub(super) processors: Vec<CpuItems>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CpuItems {
    pub(super) place: usize,
    pub(super) length: usize,
    pub(super) items: usize,
    pub(super) fields: usize,
    pub(super) apart: usize,
}

impl RecordPlan {
    /// Of the record whose statistics begin `at`; `None` if they are senseless or too short.
    pub(super) fn from_activities(
        activities: &[Activity],
        window: &mut StreamWindow<'_>,
        at: usize,
    ) -> Option<Self> {
        let mut plan = Self::default();
        for activity in activities {
            let mut items = activity.items;
            if activity.counted {
                let here = at.checked_add(plan.length)?;
                if !window.fill_to(here.checked_add(4)?) {
                    return None;
                }
                items = u32_at(window.bytes(), here)?;
                plan.counts.push((plan.length, items));
                plan.length += 4;
            }
            let place = plan.length;
            let number = usize::try_from(items).ok()?;
            let length = activity.length.checked_mul(number)?;
            plan.length = place
                .checked_add(length)
                .filter(|end| *end <= LONGEST && activity.allows_items(items))?;
            match &activity.content {
                ActivityContent::Skipped => {}
                ActivityContent::Fields(fields) => plan
                    .fields
                    .extend(fields.iter().map(|field| field.locate_in_record(place, length))),
                ActivityContent::Processors { fields, apart } => plan.processors.push(CpuItems {
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

    pub(super) fn matches_layout(&self, statistics: &[u8]) -> bool {
        self.counts.iter().all(|(place, items)| u32_at(statistics, *place) == Some(*items))
    }
}
