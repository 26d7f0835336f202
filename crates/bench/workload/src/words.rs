//! Enumerations whose variants have a name in configuration files.

/// A word of a configuration file that names one of several things.
pub(crate) trait ConfigWord: Sized {
    /// What such a word is called in messages.
    const WHAT: &'static str;

    /// The names of all.
    const ALL: &'static [&'static str];

    /// The one that `word` names, in any case.
    fn of_word(word: &str) -> Option<Self>;
}

/// An enumeration, the name of each variant, and both directions between them; other spellings stand after the name.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident as $what:literal {
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $other:literal)*,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// The names of all, in order.
            pub const NAMES: &[&str] = &[$($word,)+];

            /// The one that `word` names, in any case.
            pub fn named(word: &str) -> Option<Self> {
                let word = word.to_ascii_lowercase();
                match &*word {
                    $($word $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl crate::words::ConfigWord for $name {
            const WHAT: &'static str = $what;
            const ALL: &'static [&'static str] = Self::NAMES;

            fn of_word(word: &str) -> Option<Self> {
                Self::named(word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let word = <String as serde::Deserialize>::deserialize(from)?;
                Self::named(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, Self::NAMES))
            }
        }
    };
}

pub(crate) use words;
