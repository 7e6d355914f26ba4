//! Kinds that reports call by name, each on one line with its name.

/// An enum with `ALL`, in the order of its variants, and `name`.
macro_rules! named_enum {
    (
        $(#[doc = $about:literal])+
        $kind:ident {
            $($(#[doc = $doc:literal])+ $variant:ident $name:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $kind {
            /// All of them, in the order in which reports name them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
