//! Where a setting of the next boot stands.

use std::fmt;

use hugewise_model::configuration::FileLocation;

/// Where a step of the boot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootPlace {
    /// A line of a file.
    File(FileLocation),
    /// A word of the kernel's command line: in no file, whichever the boot loader has it from.
    KernelWord(String),
    /// What the kernel begins with as it was built, or with little memory; in words.
    KernelDefault(String),
    /// What this distribution builds its kernel with: no file of the host says so.
    DistributionDefault(String),
    /// A command that writes it; in words.
    Command(String),
}

impl BootPlace {
    pub(crate) fn kernel_word(&self) -> Option<&str> {
        match self {
            Self::KernelWord(word) => Some(word),
            _ => None,
        }
    }

    /// The file that it is in.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::File(place) => Some(&place.file),
            _ => None,
        }
    }
}

impl From<FileLocation> for BootPlace {
    fn from(place: FileLocation) -> Self {
        Self::File(place)
    }
}

impl fmt::Display for BootPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => place.fmt(f),
            Self::KernelWord(word) => write!(f, "{word} on the kernel's command line"),
            Self::DistributionDefault(whose) => write!(f, "the distribution's default ({whose})"),
            Self::KernelDefault(what) | Self::Command(what) => f.write_str(what),
        }
    }
}
