//! Colours by their meaning.

use anstyle::{AnsiColor, Style};
use hugewise_diagnose::coverage::Coverage;
use hugewise_model::{HugePageUse, Level};

/// Whether text carries colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// None: pipes, files, and terminals that ask for none.
    Plain,
    /// The terminal's own sixteen colours.
    Colour,
}

/// What a piece of text means to its reader, and so its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Text.
    #[default]
    Text,
    /// Names, which the eye looks for.
    Strong,
    /// Labels and headings, which it may skip.
    Quiet,
    /// As it should be.
    Good,
    /// Worth knowing.
    Info,
    /// It will hurt.
    Warn,
    /// It hurts.
    Error,
}

impl From<Level> for Role {
    fn from(level: Level) -> Self {
        match level {
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

impl From<HugePageUse> for Role {
    fn from(huge_pages: HugePageUse) -> Self {
        match huge_pages {
            HugePageUse::All => Self::Good,
            HugePageUse::Partly => Self::Warn,
            HugePageUse::None => Self::Error,
            HugePageUse::Unknown => Self::Quiet,
        }
    }
}

impl From<&Coverage> for Role {
    fn from(standing: &Coverage) -> Self {
        match standing {
            Coverage::All => Self::Good,
            Coverage::Partly => Self::Warn,
            Coverage::None | Coverage::DoesNotStart => Self::Error,
            Coverage::Unknown | Coverage::NotRunning | Coverage::NotCounted(_) => Self::Quiet,
        }
    }
}

impl Palette {
    /// The style of a role.
    pub fn role_style(self, role: Role) -> Style {
        if self == Self::Plain {
            return Style::new();
        }
        match role {
            Role::Text => Style::new(),
            Role::Strong => Style::new().bold(),
            Role::Quiet => Style::new().dimmed(),
            Role::Good => AnsiColor::Green.on_default(),
            Role::Info => AnsiColor::Cyan.on_default(),
            Role::Warn => AnsiColor::Yellow.on_default().bold(),
            Role::Error => AnsiColor::Red.on_default().bold(),
        }
    }
}
