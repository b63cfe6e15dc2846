//! Closed sets of words: what is written in configurations and reports, beside what it means.

/// Gives an enum of unit variants their names: `ALL`, `name`, `named` and `Display`.
macro_rules! named {
    ($($kind:ident { $($variant:ident = $name:literal),+ })+) => {$(
        impl $kind {
            /// Every one.
            pub const ALL: [$kind; [$($kind::$variant),+].len()] = [$($kind::$variant),+];

            /// The name used in configuration and reports.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),+ }
            }

            /// The one of that name.
            pub fn named(name: &str) -> Option<$kind> {
                $kind::ALL.into_iter().find(|kind| kind.name() == name)
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    )+};
}

pub(crate) use named;
