/// An enum whose names are written once: for serde, for lists of what can be chosen, and for messages.
#[macro_export]
macro_rules! choices {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$meaning])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// The names of all values, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name used in files and options.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            /// The value with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }
    };
}
