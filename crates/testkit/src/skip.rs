//! What cannot run here, and why.

use std::fmt::{self, Display, Formatter};

/// Why a test or a measurement cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// Prints `SKIP: reason`, or panics: see [`report_skip`].
    pub fn report(&self) {
        report_skip(self);
    }
}

impl Display for Skip {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[cfg(feature = "lab")]
impl From<hugewise_lab::guard::PoolRefusal> for Skip {
    fn from(refusal: hugewise_lab::guard::PoolRefusal) -> Self {
        Self(refusal.0)
    }
}

/// Prints `SKIP: reason`.
///
/// # Panics
/// With `HUGEWISE_REQUIRE_REAL=1` in the environment: there a missing requirement is a failure.
#[allow(clippy::panic, reason = "a test ends here where nothing may be missing")]
pub fn report_skip(reason: &dyn Display) {
    if std::env::var_os("HUGEWISE_REQUIRE_REAL").is_some_and(|value| value == "1") {
        panic!("required, and not here: {reason}");
    }
    eprintln!("SKIP: {reason}");
}

/// The value of a `Result` whose error says what this machine lacks; the test says so and returns.
#[macro_export]
macro_rules! require {
    ($wanted:expr) => {
        match $wanted {
            Ok(value) => value,
            Err(reason) => {
                $crate::report_skip(&reason);
                return;
            }
        }
    };
}
