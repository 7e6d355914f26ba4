//! A view of a value as a document has it: each field with what it is made of.

/// A struct for JSON and its schema, and how it is made: `from` one value, or by `new` of several.
/// Statements in braces come first; `reasons` adds the field that says why others are null.
macro_rules! json_view {
    ($(#[$meta:meta])* pub struct $name:ident $maker:ident($($source:ident: $from:ty),+)
     $(, $reasons:ident)? $({ $($before:tt)* })? => {
        $($(#[$about:meta])* $field:ident: $type:ty = $value:expr,)+
    }) => {
        #[derive(serde::Serialize, schemars::JsonSchema)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$about])* pub $field: $type,)+
            $(
                /// Why fields are null.
                #[serde(skip_serializing_if = "crate::json::Reasons::is_empty")]
                #[schemars(default)]
                pub $reasons: crate::json::Reasons,
            )?
        }

        crate::json::json_view::make_view! {
            $name, $maker($($source: $from),+), {
                $(let mut $reasons = crate::json::Reasons::default();)?
                $($($before)*)?
                $name { $($field: $value,)+ $($reasons,)? }
            }
        }
    };
}

macro_rules! make_view {
    ($name:ident, from($source:ident: $from:ty), $body:block) => {
        impl From<$from> for $name {
            fn from($source: $from) -> Self $body
        }
    };
    ($name:ident, new($($source:ident: $from:ty),+), $body:block) => {
        impl $name {
            pub(super) fn new($($source: $from),+) -> Self $body
        }
    };
}

pub(crate) use {json_view, make_view};
