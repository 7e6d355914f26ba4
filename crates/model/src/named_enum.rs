//! Enums whose variants have names, each on one line with its name.

/// An enum, and the function that names its variants in text and JSON.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $seen:vis enum $kind:ident $name_of:ident {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        $seen enum $kind {
            $($(#[$doc])* $variant,)+
        }

        impl $kind {
            /// Its name in text and JSON.
            $seen const fn $name_of(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
