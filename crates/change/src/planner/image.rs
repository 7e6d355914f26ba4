//! Hosts.
use super::{Ask, Draft};
use crate::Plan;
use hugewise_model::Host;

pub(super) fn confined(_host: &Host, _plan: &mut Plan) {}
pub(super) fn plan(_ask: &Ask<'_>, _draft: &mut Draft<'_>) {}
pub(super) fn kernel_words(_ask: &Ask<'_>, _words: &[String]) -> Option<Vec<String>> { None }
