//! Servers that are kept from starting by what starts them, and servers that no boot starts.

use hugewise_model::instance::Startup;
use hugewise_model::{AtBoot, Instance, Remedy, StoppedInstance};

use super::stages::{Obstacle, StageForecast};
use crate::coverage::Coverage;
use crate::wording::one_line;

pub(super) fn predict_never_started(instance: &Instance) -> Option<StageForecast> {
    let why = match instance.startup.as_ref()? {
        Startup::Never(why) => format!("{why}: it is not started again"),
        Startup::Refuses(what) => format!("its files keep it from starting: {what}"),
        Startup::NotAtBoot(_) => return None,
    };
    Some(StageForecast::blocked(Coverage::DoesNotStart, Obstacle::Start, why))
}

pub(crate) fn remedy_blocked_startup(instance: &Instance) -> Remedy {
    match &instance.startup {
        Some(Startup::Refuses(what)) => {
            Remedy::by_hand(format!("correct what keeps it from starting: {what}"))
        }
        _ => Remedy::by_hand("allow it to be started again, or leave it running"),
    }
}

pub(super) fn stays_down(instance: &Instance) -> Option<StageForecast> {
    let asleep = instance.stopped.as_ref().filter(|_| instance.waits_for_hands())?;
    let why = one_line(&format!("{}: the boot does not start it", asleep.at_boot.boot_evidence()));
    Some(StageForecast { coverage: Coverage::NotRunning, why: Some(why), obstacle: None })
}

/// Whether a boot is known to start a server: one that runs was started by somebody.
pub(super) fn is_surely_started(instance: &Instance) -> bool {
    instance.stopped.as_ref().is_none_or(|asleep| matches!(asleep.at_boot, AtBoot::Yes(_)))
}

/// Adds that whoever starts the server has yet to: its pages are reckoned with, for somebody will.
pub(super) fn name_missing_starter(instance: &Instance, forecast: StageForecast) -> StageForecast {
    let what = match (&instance.stopped, &instance.startup) {
        (Some(StoppedInstance { at_boot: AtBoot::Unknown(why), .. }), _) => why.clone(),
        (_, Some(Startup::NotAtBoot(why))) => format!("{why}: the boot does not start it"),
        _ => return forecast,
    };
    let then = forecast.why.map(|why| format!("; once it is started: {why}")).unwrap_or_default();
    StageForecast { why: Some(one_line(&format!("{what}{then}"))), ..forecast }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::{StageForecasts, predict_host};
    use crate::testing::{self, Case};

    /// A server wholly on huge pages, in a pool that the boot brings again.
    fn case(startup: Option<Startup>) -> Case {
        let mut case = testing::quiet();
        let instance = case.postgresql("15/main", testing::gib(2));
        testing::all_huge(instance);
        instance.startup = startup;
        case.pool(1024, 0);
        case
    }

    fn moments(startup: Option<Startup>) -> StageForecasts {
        let case = case(startup);
        predict_host(&case.host, &case.instances).forecasts_for(&case.instances[0]).unwrap().clone()
    }

    #[test]
    fn what_starts_it_no_more_is_down_after_a_restart_and_a_boot() {
        let free = moments(None);
        assert_eq!(free.restart.coverage, Coverage::All);
        let masked = moments(Some(Startup::Never(
            "x.service is masked (/etc/systemd/system/x.service)".into(),
        )));
        assert_eq!(masked.now.coverage, Coverage::All);
        for outlook in [&masked.restart, &masked.boot] {
            assert_eq!(
                (&outlook.coverage, outlook.obstacle),
                (&Coverage::DoesNotStart, Some(Obstacle::Start))
            );
            assert!(outlook.why.as_deref().unwrap().starts_with("x.service is masked"));
        }
    }

    #[test]
    fn what_the_boot_does_not_start_is_reckoned_with_and_said() {
        let (free, manual) =
            (moments(None), moments(Some(Startup::NotAtBoot("start.conf=manual (f:3)".into()))));
        assert_eq!(manual.restart, free.restart);
        assert_eq!(manual.boot.coverage, free.boot.coverage);
        assert!(
            manual
                .boot
                .why
                .unwrap()
                .starts_with("start.conf=manual (f:3): the boot does not start it")
        );
    }

    /// One on base pages, which would be told to be restarted, too.
    #[test]
    fn what_the_server_refuses_is_told_with_its_place_and_no_restart() {
        let refuses =
            || Some(Startup::Refuses("shared_buffers=4g (/etc/postgresql.conf:12)".into()));
        let outlook = moments(refuses()).restart;
        assert_eq!(
            (outlook.coverage, outlook.obstacle),
            (Coverage::DoesNotStart, Some(Obstacle::Start))
        );
        for huge in [true, false] {
            let mut case = case(refuses());
            if !huge {
                case.instances[0] = {
                    let mut fresh = testing::quiet();
                    let instance = fresh.postgresql("15/main", testing::gib(2));
                    instance.startup = refuses();
                    instance.clone()
                };
                case.pool(2048, 2048);
            }
            let assessment = crate::assess_host(&case.host, &case.instances);
            let told = assessment
                .findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW210")
                .unwrap();
            assert!(told.summary.ends_with(
                "its files keep it from starting: shared_buffers=4g (/etc/postgresql.conf:12)"
            ));
            let fixes = told.fix.join("; ");
            assert_eq!(
                fixes,
                "correct what keeps it from starting: shared_buffers=4g (/etc/postgresql.conf:12)"
            );
            let restarts = |finding: &hugewise_model::Finding| {
                finding.remedies.iter().any(|remedy| matches!(remedy, Remedy::Restart(_)))
            };
            assert!(!assessment.findings.iter().any(restarts), "{huge}");
        }
    }

    #[test]
    fn a_restart_that_is_refused_is_told_and_left_to_people() {
        let case = case(Some(Startup::Never("start.conf=disabled (f:3)".into())));
        let assessment = crate::assess_host(&case.host, &case.instances);
        let told: Vec<_> = assessment
            .findings
            .iter()
            .filter(|finding| finding.summary.contains("start.conf=disabled"))
            .collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0]
                .remedies
                .iter()
                .all(|remedy| matches!(remedy, hugewise_model::Remedy::ByHand(_))),
            "{told:?}"
        );
    }
}
