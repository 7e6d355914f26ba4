//! What starts at a boot without systemd, beside the scripts of run levels: ktune of RHEL 6, the
//! run levels of OpenRC, and Upstart's jobs.

use hugewise_model::Observed;

use super::{BootScriptScan, MOST, RUN_LEVELS};
use crate::files::numbered_lines;
use crate::init_system;

const UPSTART: &str = "/etc/init";
const LOCAL_D: &str = "/etc/local.d";

/// Folders of links to what OpenRC starts (openrc(8)).
const OPENRC: [&str; 3] =
    ["/etc/runlevels/sysinit", "/etc/runlevels/boot", "/etc/runlevels/default"];

/// Those that are looked through.
pub(super) const FOLDERS: [&str; 5] = [UPSTART, LOCAL_D, OPENRC[0], OPENRC[1], OPENRC[2]];

/// What ktune carries out of the profile that `tuned-adm` has chosen.
const KTUNE: &str = "/etc/ktune.d/tunedadm.sh";

/// Whether a line of an Upstart job says when it starts.
pub(super) fn is_upstart_start(path: &str, line: &str) -> bool {
    path.starts_with("/etc/init/") && line.split_ascii_whitespace().next() == Some("start")
}

impl BootScriptScan<'_, '_> {
    /// The link of a run level that starts this script.
    pub(super) fn find_start_link(&self, script: &str) -> Option<String> {
        RUN_LEVELS.iter().find_map(|folder| {
            let starts = |link: &String| {
                link.strip_prefix('S').is_some_and(|rest| {
                    rest.trim_start_matches(|sign: char| sign.is_ascii_digit()) == script
                })
            };
            let link = self.list_names(folder).into_iter().find(starts)?;
            Some(format!("{folder}/{link}"))
        })
    }

    /// ktune of RHEL 6 starts the script of tuned's profile, after the command line has had its
    /// effect and before any server.
    pub(super) fn scan_ktune(&mut self) {
        let Some(link) = self.find_start_link("ktune") else { return };
        let file = match self.door.source.read_link(KTUNE) {
            Observed::Known(target) if target.starts_with('/') => target,
            _ => KTUNE.to_owned(),
        };
        let before = self.found.len();
        self.scan_file(&file, false, true);
        if self.found.len() > before {
            drop(self.door.source.read_link(&link));
        }
    }

    pub(super) fn scan_openrc(&mut self) {
        for folder in OPENRC {
            for name in self.list_names(folder) {
                self.scan_file(&format!("/etc/init.d/{name}"), false, false);
                if folder.ends_with("default") && name == "local" {
                    self.scan_local_d();
                }
            }
        }
    }

    /// Scripts that OpenRC's service `local` starts.
    fn scan_local_d(&mut self) {
        for name in self.list_names(LOCAL_D).into_iter().filter(|name| name.ends_with(".start")) {
            self.scan_file(&format!("{LOCAL_D}/{name}"), true, false);
        }
    }

    /// Jobs that say when they start (init(5) of Upstart). Hosts that came to systemd still have
    /// their files.
    pub(super) fn scan_upstart(&mut self) {
        let names = self.list_names(UPSTART);
        if names.is_empty() || init_system::read(self.door).is_systemd() {
            return;
        }
        let jobs = names.iter().filter_map(|name| Some((name, name.strip_suffix(".conf")?)));
        for (name, job) in jobs {
            let file = format!("{UPSTART}/{name}");
            let is_manual = self.has_stanza(&format!("{UPSTART}/{job}.override"), "manual");
            if !is_manual && self.has_stanza(&file, "start") {
                self.scan_file(&file, true, false);
            }
        }
    }

    fn has_stanza(&self, file: &str, stanza: &str) -> bool {
        let bytes = self.door.source.read_limited(file, MOST).into_known().unwrap_or_default();
        numbered_lines(&bytes).any(|(_, line)| line.split_ascii_whitespace().next() == Some(stanza))
    }
}

#[cfg(test)]
mod tests {
    use hugewise_source::FactReader;
    use hugewise_source::map::MapSource;

    use crate::scripts;

    fn thp(source: &MapSource) -> Vec<(Option<String>, String)> {
        let writers = scripts::read(&mut FactReader::new(source)).thp;
        writers.iter().map(|writer| (writer.value.clone(), writer.to_string())).collect()
    }

    /// tuned 0.2 of RHEL 6: `enterprise-storage`.
    #[test]
    fn ktune_carries_out_the_script_of_the_profile() {
        let profile = "/etc/tune-profiles/enterprise-storage/ktune.sh";
        let text = "#!/bin/sh\n. /etc/tune-profiles/functions\nstart() {\n\
                    \tset_transparent_hugepages always\n}\nstop() {\n\
                    \trestore_transparent_hugepages\n}\nprocess $@\n";
        let idle = MapSource::new()
            .with_file(profile, text)
            .with_link("/etc/ktune.d/tunedadm.sh", profile);
        assert_eq!(thp(&idle), []);
        let on = idle.with_link("/etc/rc.d/rc3.d/S05ktune", "../init.d/ktune");
        let always = Some("always".to_owned());
        assert_eq!(thp(&on), [(always, format!("{profile}:4"))]);
    }

    #[test]
    fn openrc_starts_what_is_in_its_run_levels() {
        let write = "echo never > /sys/kernel/mm/transparent_hugepage/enabled\n";
        let idle = MapSource::new().with_file("/etc/local.d/thp.start", write);
        assert_eq!(thp(&idle), []);
        let on = idle.with_link("/etc/runlevels/default/local", "/etc/init.d/local");
        assert_eq!(thp(&on).len(), 1);
        let service = MapSource::new()
            .with_file("/etc/init.d/nothp", format!("#!/sbin/openrc-run\n{write}"))
            .with_link("/etc/runlevels/boot/nothp", "/etc/init.d/nothp");
        assert_eq!(thp(&service).len(), 1);
    }

    #[test]
    fn upstart_starts_jobs_that_say_when() {
        let write =
            "script\n  echo never > /sys/kernel/mm/transparent_hugepage/enabled\nend script\n";
        let job = |start: &str| {
            MapSource::new()
                .with_file("/proc/1/comm", "init\n")
                .with_file("/etc/init/disable-thp.conf", format!("{start}{write}"))
        };
        let on = job("start on runlevel [2345]\n");
        assert_eq!(thp(&on).len(), 1);
        assert_eq!(thp(&job("")), []);
        assert_eq!(thp(&on.clone().with_file("/etc/init/disable-thp.override", "manual\n")), []);
        assert_eq!(thp(&on.with_file("/proc/1/comm", "systemd\n")), [], "a file left behind");
    }
}
