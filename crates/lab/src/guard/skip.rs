//! What cannot run here, and why.

use hugewise_system::Failure;

/// Why an experiment or a test cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// Prints `SKIP: reason`.
    ///
    /// # Panics
    /// With `HUGEWISE_REQUIRE_REAL=1` in the environment: there a missing requirement is a failure.
    #[allow(clippy::panic, clippy::print_stderr, reason = "speaks to whoever runs the tests")]
    pub fn report(&self) {
        let Self(reason) = self;
        if std::env::var_os("HUGEWISE_REQUIRE_REAL").is_some_and(|value| value == "1") {
            panic!("required, and not here: {reason}");
        }
        eprintln!("SKIP: {reason}");
    }
}

impl From<Failure> for Skip {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

/// The value of a `Result<T, Skip>`; on a missing requirement the test says so and returns.
#[macro_export]
macro_rules! require {
    ($wanted:expr) => {
        match $wanted {
            Ok(value) => value,
            Err(skip) => {
                $crate::guard::Skip::report(&skip);
                return;
            }
        }
    };
}
