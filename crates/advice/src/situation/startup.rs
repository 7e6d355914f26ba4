//! Servers that are kept from starting by what starts them, and servers that no boot starts.

use hugewise_model::instance::Startup;
use hugewise_model::{Asleep, AtBoot, Instance, Remedy};

use super::moments::{Obstacle, Outlook};
use crate::standing::Standing;
use crate::words::one_line;

/// What comes of any start of a server that nothing starts any more.
pub(super) fn never(instance: &Instance) -> Option<Outlook> {
    let why = match instance.startup.as_ref()? {
        Startup::Never(why) => format!("{why}: it is not started again"),
        Startup::Refuses(what) => format!("its files keep it from starting: {what}"),
        Startup::NotAtBoot(_) => return None,
    };
    Some(Outlook { standing: Standing::DoesNotStart, why: Some(one_line(&why)), obstacle: Some(Obstacle::Start) })
}

/// What a person does about a server that is kept from starting.
pub(crate) fn remedy(instance: &Instance) -> Remedy {
    match &instance.startup {
        Some(Startup::Refuses(what)) => Remedy::by_hand(format!("correct what keeps it from starting: {what}")),
        _ => Remedy::by_hand("allow it to be started again, or leave it running"),
    }
}

/// What a boot makes of a server that does not run and that it is known not to start.
pub(super) fn stays_down(instance: &Instance) -> Option<Outlook> {
    let asleep = instance.asleep.as_ref().filter(|_| instance.waits_for_hands())?;
    let why = one_line(&format!("{}: the boot does not start it", asleep.at_boot.why()));
    Some(Outlook { standing: Standing::NotRunning, why: Some(why), obstacle: None })
}

/// Whether a boot is known to start a server: one that runs was started by somebody, and will be again.
pub(super) fn is_surely_started(instance: &Instance) -> bool {
    instance.asleep.as_ref().is_none_or(|asleep| matches!(asleep.at_boot, AtBoot::Yes(_)))
}

/// The same outlook, with the word that whoever starts it has yet to: its pages are reckoned with, for somebody will.
pub(super) fn at_boot(instance: &Instance, outlook: Outlook) -> Outlook {
    if let Some(Asleep { at_boot: AtBoot::Unknown(why), .. }) = &instance.asleep {
        let then = outlook.why.as_ref().map(|why| format!("; once it is started: {why}")).unwrap_or_default();
        return Outlook { why: Some(one_line(&format!("{why}{then}"))), ..outlook };
    }
    let Some(Startup::NotAtBoot(why)) = &instance.startup else { return outlook };
    let then = outlook.why.as_ref().map(|why| format!("; once it is started: {why}")).unwrap_or_default();
    Outlook { why: Some(one_line(&format!("{why}: the boot does not start it{then}"))), ..outlook }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::{Moments, situation};
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

    fn moments(startup: Option<Startup>) -> Moments {
        let case = case(startup);
        situation(&case.host, &case.instances).of(&case.instances[0]).unwrap().clone()
    }

    #[test]
    fn what_starts_it_no_more_is_down_after_a_restart_and_a_boot() {
        let free = moments(None);
        assert_eq!(free.restart.standing, Standing::All);
        let masked = moments(Some(Startup::Never("x.service is masked (/etc/systemd/system/x.service)".into())));
        assert_eq!(masked.now.standing, Standing::All);
        for outlook in [&masked.restart, &masked.boot] {
            assert_eq!((&outlook.standing, outlook.obstacle), (&Standing::DoesNotStart, Some(Obstacle::Start)));
            assert!(outlook.why.as_deref().unwrap().starts_with("x.service is masked"));
        }
    }

    #[test]
    fn what_the_boot_does_not_start_is_reckoned_with_and_said() {
        let (free, manual) = (moments(None), moments(Some(Startup::NotAtBoot("start.conf=manual (f:3)".into()))));
        assert_eq!(manual.restart, free.restart);
        assert_eq!(manual.boot.standing, free.boot.standing);
        assert!(manual.boot.why.unwrap().starts_with("start.conf=manual (f:3): the boot does not start it"));
    }

    /// One on base pages, which would be told to be restarted, too.
    #[test]
    fn what_the_server_refuses_is_told_with_its_place_and_no_restart() {
        let refuses = || Some(Startup::Refuses("shared_buffers=4g (/etc/postgresql.conf:12)".into()));
        let outlook = moments(refuses()).restart;
        assert_eq!((outlook.standing, outlook.obstacle), (Standing::DoesNotStart, Some(Obstacle::Start)));
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
            let assessment = crate::assess(&case.host, &case.instances);
            let told = assessment.findings.iter().find(|it| it.code.as_str() == "HW210").unwrap();
            assert!(
                told.summary.ends_with("its files keep it from starting: shared_buffers=4g (/etc/postgresql.conf:12)")
            );
            let fixes = told.fix.join("; ");
            assert_eq!(fixes, "correct what keeps it from starting: shared_buffers=4g (/etc/postgresql.conf:12)");
            let restarts = |it: &hugewise_model::Finding| it.remedies.iter().any(|it| matches!(it, Remedy::Restart(_)));
            assert!(!assessment.findings.iter().any(restarts), "{huge}");
        }
    }

    #[test]
    fn a_restart_that_is_refused_is_told_and_left_to_people() {
        let case = case(Some(Startup::Never("start.conf=disabled (f:3)".into())));
        let assessment = crate::assess(&case.host, &case.instances);
        let told: Vec<_> = assessment.findings.iter().filter(|it| it.summary.contains("start.conf=disabled")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].remedies.iter().all(|it| matches!(it, hugewise_model::Remedy::ByHand(_))), "{told:?}");
    }
}
