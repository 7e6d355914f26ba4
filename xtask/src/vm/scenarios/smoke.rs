//! The machine itself, and what check finds on it.

use crate::Failure;
use crate::vm::{Hardware, Image, Scenario, Stage};

pub(super) const SCENARIO: Scenario =
    Scenario { name: "smoke", shows: "the machine boots, and check sees a PostgreSQL on base pages", run };

fn run(stage: &Stage) -> Result<(), Failure> {
    let disk = stage.disk(Image::Plain)?;
    let mut machine = stage.boot(&disk, Hardware::default())?;
    let said = machine.run("cat /proc/cmdline; systemctl --failed; systemd-analyze; systemd-analyze blame | head; time hugewise check; systemd-analyze critical-chain; ls -la /boot; free -m")?;
    println!("{} {}{}", said.code, said.out, said.err);
    machine.reboot()?;
    println!("{}", machine.must("uptime; systemd-analyze")?);
    Ok(())
}
