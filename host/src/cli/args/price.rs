//! The price of a model's tokens, as typed: `in=1.25,out=10,cache_read=0.125`.

use std::str::FromStr;

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceArgument {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from the provider's cache; as `input` if not given.
    pub cache_read: Option<f64>,
    /// Input tokens written to the provider's cache; as `input` if not given.
    pub cache_write: Option<f64>,
}

/// Why a price can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceArgumentError {
    /// A part is not `name=number`.
    #[error("`{part}` is not `name=dollars`: {USAGE}")]
    NotAPair {
        /// The part.
        part: String,
    },
    /// The name is not one of the four.
    #[error("unknown price `{name}`{}: {USAGE}", hint(.name))]
    UnknownName {
        /// The name.
        name: String,
    },
    /// A name is there twice.
    #[error("`{name}` is given twice: keep one of them")]
    Twice {
        /// The name.
        name: &'static str,
    },
    /// The value is not a number of dollars.
    #[error(
        "`{value}` is not a price for `{name}`: give dollars per million tokens, for example `1.25`"
    )]
    NotANumber {
        /// The name.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// `in` or `out` is missing.
    #[error("the price of `{name}` tokens is missing: {USAGE}")]
    Missing {
        /// The name.
        name: &'static str,
    },
}

const USAGE: &str = "give dollars per million tokens as `in=1.25,out=10`, \
                     and if they differ `cache_read=..` and `cache_write=..`";

const NAMES: [&str; 4] = ["in", "out", "cache_read", "cache_write"];

fn hint(name: &str) -> String {
    let meant = match name {
        "input" | "prompt" => "in",
        "output" | "completion" => "out",
        "cached" | "cache" | "cache-read" => "cache_read",
        "cache-write" => "cache_write",
        _ => return String::new(),
    };
    format!(" (did you mean `{meant}`?)")
}

impl FromStr for PriceArgument {
    type Err = PriceArgumentError;

    fn from_str(text: &str) -> Result<Self, PriceArgumentError> {
        let mut given = [None; NAMES.len()];
        for part in text.split(',').map(str::trim) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(PriceArgumentError::NotAPair {
                    part: part.to_owned(),
                });
            };
            let (name, value) = (name.trim(), value.trim());
            let Some(index) = NAMES.iter().position(|known| *known == name) else {
                return Err(PriceArgumentError::UnknownName {
                    name: name.to_owned(),
                });
            };
            let name = NAMES[index];
            let amount = value.strip_prefix('$').unwrap_or(value).parse::<f64>();
            let amount = match amount {
                Ok(amount) if amount.is_finite() && amount >= 0.0 => amount,
                _ => {
                    return Err(PriceArgumentError::NotANumber {
                        name,
                        value: value.to_owned(),
                    });
                }
            };
            if given[index].replace(amount).is_some() {
                return Err(PriceArgumentError::Twice { name });
            }
        }
        let [input, output, cache_read, cache_write] = given;
        Ok(Self {
            input: input.ok_or(PriceArgumentError::Missing { name: "in" })?,
            output: output.ok_or(PriceArgumentError::Missing { name: "out" })?,
            cache_read,
            cache_write,
        })
    }
}

impl PriceArgument {
    /// The config keys of a price and their values; none for a price that equals `input`.
    pub fn entries(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("model.price.input", Some(self.input)),
            ("model.price.output", Some(self.output)),
            ("model.price.cache_read", self.cache_read),
            ("model.price.cache_write", self.cache_write),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good() {
        let vectors = [
            ("in=1.25,out=10", [Some(1.25), Some(10.0), None, None]),
            ("out=$10, in=0", [Some(0.0), Some(10.0), None, None]),
            (
                "in=3,out=15,cache_write=3.75,cache_read=0.3",
                [Some(3.0), Some(15.0), Some(0.3), Some(3.75)],
            ),
        ];
        for (text, expected) in vectors {
            let price: PriceArgument = text.parse().unwrap();
            assert_eq!(price.entries().map(|(_, dollars)| dollars), expected);
        }
    }

    #[test]
    fn bad() {
        let vectors = [
            ("", "`` is not `name=dollars`"),
            ("1.25", "`1.25` is not `name=dollars`"),
            ("in=1,out=2,", "`` is not `name=dollars`"),
            ("in=1", "price of `out` tokens is missing"),
            ("out=1", "price of `in` tokens is missing"),
            (
                "input=1,out=2",
                "unknown price `input` (did you mean `in`?)",
            ),
            ("in=1,out=2,foo=3", "unknown price `foo`: "),
            ("in=1,out=2,cached=3", "did you mean `cache_read`?"),
            ("in=1,in=2,out=3", "`in` is given twice"),
            ("in=cheap,out=2", "`cheap` is not a price for `in`"),
            ("in=1,out=-2", "`-2` is not a price for `out`"),
            ("in=1,out=NaN", "`NaN` is not a price for `out`"),
            ("in=,out=2", "`` is not a price for `in`"),
        ];
        for (text, part) in vectors {
            let message = text.parse::<PriceArgument>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
