//! How each instance stands now, after its next restart and after the next boot, and why.

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::prediction::PredictionStage;

use crate::CheckReport;
use crate::palette::Role;
use crate::plain::escape_line;

pub(crate) const HEADINGS: [&str; 3] = ["now", "after its next restart", "after the next boot"];
/// Only so many are shown: anybody can start as many servers as he likes.
const MOST: usize = 60;

pub(crate) struct InstanceAtStage {
    pub(crate) role: Role,
    pub(crate) standing: &'static str,
    /// Empty where it is as it should be, or is told elsewhere.
    pub(crate) why: String,
}

/// In the order of [`HEADINGS`], with the number of instances left out.
pub(crate) fn stage_rows(
    checked: &CheckReport<'_>,
) -> (Vec<(String, [InstanceAtStage; 3])>, usize) {
    let rows = checked.instances.iter().take(MOST).map(|instance| {
        let moments = checked.assessment.situation.forecasts_for(instance);
        let at = |moment: PredictionStage| match moments {
            Some(moments) => {
                let outlook = moments.at_stage(moment);
                let why = match (&outlook.why, &outlook.coverage) {
                    (Some(why), _) => escape_line(why).into_owned(),
                    (None, Coverage::NotCounted(why)) => (*why).to_owned(),
                    (None, _) => String::new(),
                };
                InstanceAtStage {
                    role: Role::from(&outlook.coverage),
                    standing: in_words(&outlook.coverage),
                    why,
                }
            }
            None => InstanceAtStage { role: Role::Quiet, standing: "unknown", why: String::new() },
        };
        (escape_line(&instance.title()).into_owned(), PredictionStage::ALL.map(at))
    });
    (rows.collect(), checked.instances.len().saturating_sub(MOST))
}

const fn in_words(standing: &Coverage) -> &'static str {
    match standing {
        Coverage::All => "all on huge pages",
        Coverage::Partly => "partly on huge pages",
        Coverage::None => "not on huge pages",
        Coverage::Unknown => "unknown",
        Coverage::NotRunning => "not running",
        Coverage::DoesNotStart => "does not start",
        Coverage::NotCounted(_) => "not counted",
    }
}
