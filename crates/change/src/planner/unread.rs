//! What a plan would keep in files that nothing here reads at boot, on hosts without systemd: by hand, in files that are read.
//! They are somebody else's, and not hugewise's to edit.

use hugewise_advice::boot;
use hugewise_advice::words::pool_switch;
use hugewise_host::Source;
use hugewise_model::{Host, PageCount, PageSize};

use super::Ask;

/// The file of settings that every boot without systemd reads.
const CONF: &str = "/etc/sysctl.conf";

/// Scripts that run late in each boot: of Red Hat, SUSE, and others.
const RC_LOCAL: [&str; 3] = ["/etc/rc.d/rc.local", "/etc/init.d/boot.local", "/etc/rc.local"];

/// What to write into /etc/sysctl.conf for these settings, with their dots.
pub(super) fn in_conf(host: &Host, settings: &[(&str, &str)]) -> Vec<String> {
    let mut lines: Vec<String> =
        boot::unheeded(host, "sysctl.d").iter().map(|unheeded| format!("# {unheeded}")).collect();
    for (key, value) in settings {
        let mut there = host.configuration.sysctl.known().into_iter().flatten();
        let there = there.rfind(|one| one.key == *key && one.place.file == CONF);
        let instead = there.map(|one| format!(", instead of {} in line {}", one.value, one.place.line));
        lines.push(format!("# in {CONF}: {key} = {value}{}", instead.unwrap_or_default()));
    }
    lines
}

/// What to do for a pool of the next boot that is not of the default size: no file of settings names it.
pub(super) fn pool_in_rc_local(ask: &Ask<'_>, page: PageSize, pages: PageCount) -> Vec<String> {
    let mut lines: Vec<String> =
        boot::unheeded(ask.host, "tmpfiles.d").iter().map(|unheeded| format!("# {unheeded}")).collect();
    let switch = pool_switch(ask.host, page);
    lines.push(format!("# in {}: echo {} > {switch}", rc_local(ask.source), pages.get()));
    lines.push("# or on the kernel command line, which reserves them before memory is in use (--early)".to_owned());
    lines
}

/// What to do for THP after each boot: the boot loader says it first, rc.local last.
pub(super) fn thp(ask: &Ask<'_>, word: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        boot::unheeded(ask.host, "tmpfiles.d").iter().map(|unheeded| format!("# {unheeded}")).collect();
    let feeds = boot::feeds(ask.host);
    lines.push(format!("# add transparent_hugepage={word} to the kernel's command line:"));
    lines.extend(feeds.how);
    let switch = ask.host.thp.file("enabled");
    lines.push(format!("# or in {}: echo {word} > {switch}", rc_local(ask.source)));
    lines
}

/// The script that runs late in each boot of this host.
fn rc_local(source: &dyn Source) -> &'static str {
    let there = RC_LOCAL.into_iter().find(|path| !source.read(path).is_absent());
    let [red_hat, suse, other] = RC_LOCAL;
    there.unwrap_or(match () {
        () if !source.list("/etc/rc.d/rc3.d").is_absent() || !source.read("/etc/redhat-release").is_absent() => red_hat,
        () if !source.read("/etc/init.d/boot.sysctl").is_absent() => suse,
        () => other,
    })
}
