//! Bytes, or a share of something.

use std::{fmt, str::FromStr};

use forebay_process::{Error, ErrorKind, Result, size};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes, or a share of what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// From 1 to 100 hundredths.
    Percent(u8),
}

impl Amount {
    /// The bytes, where a share is one of `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // In this order nothing overflows, and what is lost is less than 100 bytes.
            Self::Percent(percent) => whole / 100 * u64::from(percent),
        }
    }
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(number) = text.trim().strip_suffix('%') else {
            let bytes = size::parse(text).map_err(|what| Error::new(ErrorKind::Invalid, what))?;
            return Ok(Self::Bytes(bytes));
        };
        let percent = number.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
        percent.map(Self::Percent).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("'{text}' is no share"))
                .hint("shares are whole numbers from 1% to 100%")
        })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&size::exact(*bytes)),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;

        impl de::Visitor<'_> for Words {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"4GiB\" or 1048576, or a share such as \"50%\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Amount, E> {
                Ok(Amount::Bytes(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Amount, E> {
                u64::try_from(bytes).map(Amount::Bytes).map_err(|_| E::custom("a size is not negative"))
            }
        }
        from.deserialize_any(Words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_bytes_or_a_share_and_is_read_back() {
        for (text, amount) in [
            ("100GiB", Amount::Bytes(100 << 30)),
            ("50%", Amount::Percent(50)),
            ("4096", Amount::Bytes(4096)),
        ] {
            assert_eq!(text.parse::<Amount>().unwrap(), amount);
            assert_eq!(amount.to_string().parse::<Amount>().unwrap(), amount);
        }
        for text in ["0%", "101%", "1.5%", "%", "-3%"] {
            assert!(text.parse::<Amount>().unwrap_err().to_string().contains("from 1% to 100%"), "{text}");
        }
    }

    #[test]
    fn a_share_is_of_what_there_is() {
        assert_eq!(Amount::Percent(50).of(1000), 500);
        assert_eq!(Amount::Percent(100).of(u64::MAX), u64::MAX / 100 * 100);
        assert_eq!(Amount::Bytes(7).of(1), 7);
    }
}
