//! How each instance stands now, after its next restart and after the next boot, and why.

use hugewise_advice::situation::Moment;
use hugewise_advice::standing::Standing;

use super::standing::role;
use crate::Checked;
use crate::palette::Role;
use crate::plain::clean;

/// What the moments are called above their columns.
pub(crate) const HEADINGS: [&str; 3] = ["now", "after its next restart", "after the next boot"];

/// Instances that are told of: anybody can start as many as he likes.
const MOST: usize = 60;

/// One instance at one moment.
pub(crate) struct At {
    pub(crate) role: Role,
    pub(crate) standing: &'static str,
    /// What that rests on; empty where it is as it should be, or is told elsewhere.
    pub(crate) why: String,
}

/// The instances with their moments, in the order of [`HEADINGS`], and how many more there are.
pub(crate) fn rows(checked: &Checked<'_>) -> (Vec<(String, [At; 3])>, usize) {
    let rows = checked.instances.iter().take(MOST).map(|instance| {
        let moments = checked.assessment.situation.of(instance);
        let at = |moment: Moment| match moments {
            Some(moments) => {
                let outlook = moments.at(moment);
                let why = match (&outlook.why, &outlook.standing) {
                    (Some(why), _) => clean(why).into_owned(),
                    (None, Standing::NotCounted(why)) => (*why).to_owned(),
                    (None, _) => String::new(),
                };
                At { role: role(&outlook.standing), standing: in_words(&outlook.standing), why }
            }
            None => At { role: Role::Quiet, standing: "unknown", why: String::new() },
        };
        (clean(&instance.title()).into_owned(), Moment::ALL.map(at))
    });
    (rows.collect(), checked.instances.len().saturating_sub(MOST))
}

const fn in_words(standing: &Standing) -> &'static str {
    match standing {
        Standing::All => "all on huge pages",
        Standing::Partly => "partly on huge pages",
        Standing::None => "not on huge pages",
        Standing::Unknown => "unknown",
        Standing::NotRunning => "not running",
        Standing::DoesNotStart => "does not start",
        Standing::NotCounted(_) => "not counted",
    }
}
