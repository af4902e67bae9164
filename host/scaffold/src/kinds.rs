//! The words for kinds of plugins and for languages.

use std::fmt;
use std::str::FromStr;

/// A word that is not a kind of plugin.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{word}` is not a kind of plugin; the kinds are `adapter`, `parser`, `formatter`, \
     `processor` and `policy`"
)]
pub struct UnknownKind {
    /// The word.
    pub word: String,
}

/// A word that is not a language with an SDK.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no SDK for `{word}`; the languages are `rust`, `python`, `js` and `c`. The \
     contract is plain WIT, so others work too: see `wit/README.md`"
)]
pub struct UnknownLanguage {
    /// The word.
    pub word: String,
}

/// A kind of plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginKind {
    /// Speaks a model's wire format.
    Adapter,
    /// Finds the actions in a reply.
    Parser,
    /// Turns outputs into messages.
    Formatter,
    /// Changes what the model sees of the history.
    Processor,
    /// Judges an action before it runs.
    Policy,
}

impl PluginKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Adapter,
        Self::Parser,
        Self::Formatter,
        Self::Processor,
        Self::Policy,
    ];

    /// The short word, which is also the world's name in `wit/worlds.wit`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Adapter => "adapter",
            Self::Parser => "parser",
            Self::Formatter => "formatter",
            Self::Processor => "processor",
            Self::Policy => "policy",
        }
    }

    /// The contract's interface of this kind.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Adapter => "model-adapter",
            Self::Parser => "action-parser",
            Self::Formatter => "observation-formatter",
            Self::Processor => "history-processor",
            Self::Policy => "action-policy",
        }
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for PluginKind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| word == kind.word() || word == kind.interface())
            .ok_or_else(|| UnknownKind {
                word: word.to_owned(),
            })
    }
}

/// A language that there is an SDK for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// Rust, by Cargo.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// JavaScript, by componentize-qjs or StarlingMonkey.
    Js,
    /// C, by clang or zig.
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::Js, Self::C];

    /// Its word, which is also its folder in `sdk/`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(word: &str) -> Result<Self, UnknownLanguage> {
        match word {
            "py" => return Ok(Self::Python),
            "javascript" | "typescript" | "ts" => return Ok(Self::Js),
            _ => {}
        }
        Self::ALL
            .into_iter()
            .find(|language| word == language.word())
            .ok_or_else(|| UnknownLanguage {
                word: word.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_back() {
        for kind in PluginKind::ALL {
            assert_eq!(kind.word().parse::<PluginKind>().unwrap(), kind);
            assert_eq!(kind.interface().parse::<PluginKind>().unwrap(), kind);
        }
        for language in Language::ALL {
            assert_eq!(language.word().parse::<Language>().unwrap(), language);
        }
        for (word, language) in [("py", Language::Python), ("typescript", Language::Js)] {
            assert_eq!(word.parse::<Language>().unwrap(), language);
        }
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        let error = "parsers".parse::<PluginKind>().unwrap_err().to_string();
        assert!(error.contains("`parsers`") && error.contains("`processor`"));
        let error = "go".parse::<Language>().unwrap_err().to_string();
        assert!(error.contains("`go`") && error.contains("`python`"));
    }
}
