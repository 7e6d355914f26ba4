//! The host in a few lines.

use std::io;

use hugewise_model::Host;

use crate::screen::Screen;
use crate::view::host;

/// All that is known of the machine.
pub(super) fn write(screen: &mut Screen<'_>, host: &Host) -> io::Result<()> {
    host::lines(host).iter().try_for_each(|fields| screen.fields(2, fields))
}

/// What changes from hour to hour.
pub(super) fn brief(screen: &mut Screen<'_>, host: &Host) -> io::Result<()> {
    host::brief(host).iter().try_for_each(|fields| screen.fields(2, fields))
}
