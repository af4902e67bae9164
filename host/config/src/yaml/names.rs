//! The tokens that name something: directives, anchors, aliases and tags.

use super::Fault;
use super::cursor::{END, ends_line, ends_word, ends_word_untabbed, is_name};
use super::scan::{Scanner, Token};

impl Scanner {
    /// A line that begins with `%`.
    pub(super) fn directive(&mut self) -> Result<Token, Fault> {
        self.cursor.forward(1);
        let name = self.name("a directive needs a name, not")?;
        let end = |scanner: &Self| {
            if ends_word_untabbed(scanner.cursor.peek()) {
                Ok(())
            } else {
                Err(scanner.expected("a blank after this part of a directive"))
            }
        };
        end(self)?;
        let token = match name.as_str() {
            "YAML" => {
                self.cursor.skip(|char| char == ' ');
                let major = self.number()?;
                if self.cursor.peek() != '.' {
                    return Err(self.expected("a digit or `.`"));
                }
                self.cursor.forward(1);
                self.number()?;
                end(self)?;
                Token::Version(major)
            }
            "TAG" => {
                self.cursor.skip(|char| char == ' ');
                let handle = self.tag_handle()?;
                if self.cursor.peek() != ' ' {
                    return Err(self.expected("a blank after the handle"));
                }
                self.cursor.skip(|char| char == ' ');
                let prefix = self.tag_uri()?;
                end(self)?;
                Token::TagPrefix(handle, prefix)
            }
            _ => {
                self.cursor.skip(|char| !ends_line(char));
                Token::Directive
            }
        };
        self.cursor.rest_of_line()?;
        Ok(token)
    }

    fn expected(&self, what: &str) -> Fault {
        let message = format!("expected {what}, not {}", self.cursor.shown());
        Fault::new(self.cursor.mark(), message)
    }

    fn name(&mut self, otherwise: &str) -> Result<String, Fault> {
        let mut name = String::new();
        let length = self.cursor.count(is_name);
        if length == 0 {
            let message = format!("{otherwise} {}", self.cursor.shown());
            return Err(Fault::new(self.cursor.mark(), message)
                .hint("put the text in quotes if it is no name"));
        }
        self.cursor.take(length, &mut name);
        Ok(name)
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let length = self.cursor.count(|char| char.is_ascii_digit());
        if length == 0 {
            return Err(self.expected("a digit"));
        }
        let mut digits = String::new();
        self.cursor.take(length, &mut digits);
        Ok(digits.parse().unwrap_or(u64::MAX))
    }

    /// The name after `&` or `*`.
    pub(super) fn anchor(&mut self) -> Result<String, Fault> {
        self.cursor.forward(1);
        let name = self.name("`&` and `*` need a name of letters, digits, `-` and `_`, not")?;
        let next = self.cursor.peek();
        if ends_word(next) || matches!(next, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`') {
            Ok(name)
        } else {
            Err(self.expected("the end of the name"))
        }
    }

    /// A tag, which begins with `!`.
    pub(super) fn tag(&mut self) -> Result<Token, Fault> {
        let next = self.cursor.peek_at(1);
        let token = if next == '<' {
            self.cursor.forward(2);
            let suffix = self.tag_uri()?;
            if self.cursor.peek() != '>' {
                return Err(self.expected("`>` at the end of the tag"));
            }
            self.cursor.forward(1);
            Token::Tag(None, suffix)
        } else if ends_word(next) {
            self.cursor.forward(1);
            Token::Tag(None, "!".to_owned())
        } else {
            let mut ahead = 1;
            while !ends_word_untabbed(self.cursor.peek_at(ahead))
                && self.cursor.peek_at(ahead) != '!'
            {
                ahead += 1;
            }
            let handle = if self.cursor.peek_at(ahead) == '!' {
                self.tag_handle()?
            } else {
                self.cursor.forward(1);
                "!".to_owned()
            };
            Token::Tag(Some(handle), self.tag_uri()?)
        };
        if ends_word_untabbed(self.cursor.peek()) {
            Ok(token)
        } else {
            Err(self.expected("a blank after the tag"))
        }
    }

    fn tag_handle(&mut self) -> Result<String, Fault> {
        if self.cursor.peek() != '!' {
            return Err(self.expected("`!`"));
        }
        let mut length = 1;
        if self.cursor.peek_at(length) != ' ' {
            while is_name(self.cursor.peek_at(length)) {
                length += 1;
            }
            if self.cursor.peek_at(length) != '!' {
                self.cursor.forward(length);
                return Err(self.expected("`!` at the end of the handle"));
            }
            length += 1;
        }
        let mut handle = String::new();
        self.cursor.take(length, &mut handle);
        Ok(handle)
    }

    fn tag_uri(&mut self) -> Result<String, Fault> {
        let mut bytes = Vec::new();
        let mut escapes = self.cursor.mark();
        loop {
            let char = self.cursor.peek();
            if char == '%' {
                if bytes.last().is_none_or(u8::is_ascii) {
                    escapes = self.cursor.mark();
                }
                self.cursor.forward(1);
                let digit = |ahead| self.cursor.peek_at(ahead).to_digit(16);
                let (Some(high), Some(low)) = (digit(0), digit(1)) else {
                    return Err(self.expected("two hexadecimal digits after `%`"));
                };
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                self.cursor.forward(2);
            } else if char.is_ascii_alphanumeric()
                || (char != END && "-;/?:@&=+$,_.!~*'()[]".contains(char))
            {
                let mut buffer = [0; 4];
                bytes.extend(char.encode_utf8(&mut buffer).bytes());
                self.cursor.forward(1);
            } else {
                break;
            }
        }
        if bytes.is_empty() {
            return Err(self.expected("the name of a tag"));
        }
        String::from_utf8(bytes).map_err(|_| Fault::new(escapes, "the tag's escapes are not UTF-8"))
    }
}
