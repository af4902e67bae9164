//! Reads an expression with the rules of Python's `re._parser`, in the same order, so that both
//! accept and refuse the same.

use std::collections::BTreeMap;

use crate::Mistake;
use crate::node::{
    Flags, Item, Kind, MatchWidth, NO_MAX, PatternNode, PatternPlace, Repeat, width,
};
use crate::unicode::is_word;

/// How deep groups may be nested; Python's own limit is about this, too.
const DEPTH: usize = 150;
/// The longest expression, in characters.
const LONGEST: usize = 1 << 20;

/// An expression that was read.
#[derive(Debug)]
pub struct ParsedPattern {
    pub nodes: Vec<PatternNode>,
    /// The least and the greatest width of each group; 0 is no group.
    pub widths: Vec<Option<MatchWidth>>,
}

impl ParsedPattern {
    pub fn width(&self, nodes: &[PatternNode]) -> MatchWidth {
        width(nodes, &self.widths)
    }
}

/// Reads an expression.
pub fn parse(pattern: &str, dot_all: bool) -> Result<ParsedPattern, Mistake> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut parser = PatternParser {
        widths: vec![None],
        flags: Flags {
            dot_all,
            ..Flags::default()
        },
        chars,
        at: 0,
        names: BTreeMap::new(),
        wanted: Vec::new(),
        behind: None,
        types: (false, false),
    };
    if parser.chars.len() > LONGEST {
        return Err(parser.mistake_at("the expression is too long", LONGEST));
    }
    let mut at = 0;
    while at < parser.chars.len() {
        let is_escape = parser.chars[at] == '\\';
        if is_escape && at + 1 == parser.chars.len() {
            return Err(parser.mistake_at("bad escape (end of pattern)", at));
        }
        at += 1 + usize::from(is_escape);
    }
    let nodes = parser.alternatives(parser.flags, 0)?;
    if parser.peek().is_some() {
        return Err(parser.mistake("unbalanced parenthesis"));
    }
    if parser.types == (true, true) {
        return Err(parser.mistake_at("ASCII and UNICODE flags are incompatible", 0));
    }
    if let Some((group, at)) = parser.wanted.iter().find(|it| it.0 >= parser.widths.len()) {
        return Err(parser.mistake_at(&format!("invalid group reference {group}"), *at));
    }
    Ok(ParsedPattern {
        nodes,
        widths: parser.widths,
    })
}

struct PatternParser {
    chars: Vec<char>,
    at: usize,
    /// Those of the whole expression.
    flags: Flags,
    widths: Vec<Option<MatchWidth>>,
    names: BTreeMap<String, usize>,
    /// Groups in conditions, which may be defined later, with their positions.
    wanted: Vec<(usize, usize)>,
    /// The first group that is inside of the look-behind that is being read.
    behind: Option<usize>,
    /// Whether `a` and `u` are flags of the whole expression.
    types: (bool, bool),
}

/// A character, or one after a backslash.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PatternToken {
    c: char,
    escaped: bool,
}

impl PatternToken {
    fn text(self) -> String {
        match self.escaped {
            true => format!("\\{}", self.c),
            false => self.c.to_string(),
        }
    }
}

type Parse<T> = Result<T, Mistake>;

impl PatternParser {
    fn mistake_at(&self, what: &str, position: usize) -> Mistake {
        Mistake {
            what: what.to_owned(),
            position: Some(position),
        }
    }

    fn mistake(&self, what: &str) -> Mistake {
        self.mistake_at(what, self.at)
    }

    fn unknown(&self, extension: &str, start: usize) -> Mistake {
        self.mistake_at(&format!("unknown extension {extension}"), start + 1)
    }

    fn peek(&self) -> Option<PatternToken> {
        let token = |c, escaped| PatternToken { c, escaped };
        match *self.chars.get(self.at)? {
            '\\' => Some(token(*self.chars.get(self.at + 1)?, true)),
            c => Some(token(c, false)),
        }
    }

    fn get(&mut self) -> Option<PatternToken> {
        let token = self.peek()?;
        self.at += 1 + usize::from(token.escaped);
        Some(token)
    }

    /// The plain character that comes next.
    fn plain(&self) -> Option<char> {
        self.peek().filter(|it| !it.escaped).map(|it| it.c)
    }

    fn take(&mut self, c: char) -> bool {
        let is_it = self.plain() == Some(c);
        self.at += usize::from(is_it);
        is_it
    }

    fn take_while(&mut self, most: usize, fits: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while taken.len() < most
            && let Some(c) = self.plain().filter(|c| fits(*c))
        {
            taken.push(c);
            self.at += 1;
        }
        taken
    }

    fn until(&mut self, end: char, what: &str) -> Parse<String> {
        let start = self.at;
        let mut name = String::new();
        loop {
            match self.get() {
                None if name.is_empty() => return Err(self.mistake(&format!("missing {what}"))),
                None => {
                    let what = format!("missing {end}, unterminated name");
                    return Err(self.mistake_at(&what, start));
                }
                Some(PatternToken { c, escaped: false }) if c == end => break,
                Some(token) => name += &token.text(),
            }
        }
        match name.is_empty() {
            true => Err(self.mistake_at(&format!("missing {what}"), start)),
            false => Ok(name),
        }
    }

    fn alternatives(&mut self, mut flags: Flags, depth: usize) -> Parse<Vec<PatternNode>> {
        if depth > DEPTH {
            return Err(self.mistake("groups are nested too deeply"));
        }
        let mut all = Vec::new();
        loop {
            all.push(self.sequence(flags, depth, depth == 0 && all.is_empty())?);
            if !self.take('|') {
                break;
            }
            if depth == 0 {
                flags = self.flags;
            }
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => vec![PatternNode::Branch(all)],
        })
    }

    fn sequence(&mut self, mut flags: Flags, depth: usize, first: bool) -> Parse<Vec<PatternNode>> {
        let mut nodes: Vec<PatternNode> = Vec::new();
        while let Some(token) = self.peek() {
            if !token.escaped && matches!(token.c, '|' | ')') {
                break;
            }
            let start = self.at;
            self.get();
            if token.escaped {
                nodes.push(self.escape(token.c, start, flags)?);
                continue;
            }
            if flags.verbose {
                if " \t\n\r\x0b\x0c".contains(token.c) {
                    continue;
                }
                if token.c == '#' {
                    while self.get().is_some_and(|it| {
                        it != PatternToken {
                            c: '\n',
                            escaped: false,
                        }
                    }) {}
                    continue;
                }
            }
            match token.c {
                '[' => nodes.push(self.set(start, flags)?),
                '*' | '+' | '?' | '{' => {
                    let Some((min, max)) = self.bounds(token.c, start)? else {
                        nodes.push(PatternNode::Char('{'.into(), flags));
                        continue;
                    };
                    let item = match nodes.pop() {
                        None | Some(PatternNode::Place(..)) => {
                            return Err(self.mistake_at("nothing to repeat", start));
                        }
                        Some(PatternNode::Repeat(..)) => {
                            return Err(self.mistake_at("multiple repeat", start));
                        }
                        Some(PatternNode::Group(None, body)) => body,
                        Some(node) => vec![node],
                    };
                    let kind = match (self.take('?'), self.plain()) {
                        (true, _) => Kind::Lazy,
                        (false, Some('+')) => Kind::Possessive,
                        (false, _) => Kind::Greedy,
                    };
                    self.at += usize::from(kind == Kind::Possessive);
                    nodes.push(PatternNode::Repeat(Repeat { min, max, kind }, item));
                }
                '.' => nodes.push(PatternNode::Any(flags)),
                '^' => nodes.push(PatternNode::Place(PatternPlace::LineStart, flags)),
                '$' => nodes.push(PatternNode::Place(PatternPlace::LineEnd, flags)),
                '(' => {
                    let is_first = first && nodes.is_empty();
                    if let Some(node) = self.group(start, &mut flags, depth, is_first)? {
                        nodes.push(node);
                    }
                }
                c => nodes.push(PatternNode::Char(c.into(), flags)),
            }
        }
        Ok(nodes)
    }

    /// The bounds of a repetition; `None` if it is a literal `{`.
    fn bounds(&mut self, c: char, start: usize) -> Parse<Option<(u32, u32)>> {
        match c {
            '?' => return Ok(Some((0, 1))),
            '*' => return Ok(Some((0, NO_MAX))),
            '+' => return Ok(Some((1, NO_MAX))),
            _ => {}
        }
        let here = self.at;
        if self.plain() == Some('}') {
            return Ok(None);
        }
        let low = self.take_while(usize::MAX, |c| c.is_ascii_digit());
        let high = match self.take(',') {
            true => self.take_while(usize::MAX, |c| c.is_ascii_digit()),
            false => low.clone(),
        };
        if !self.take('}') {
            self.at = here;
            return Ok(None);
        }
        let number = |digits: &str, empty: u32| match digits {
            "" => Ok(empty),
            digits => match digits.parse() {
                Ok(number) if number < NO_MAX => Ok(number),
                _ => Err(self.mistake_at("the repetition number is too large", start)),
            },
        };
        let (min, max) = (number(&low, 0)?, number(&high, NO_MAX)?);
        match max < min {
            true => Err(self.mistake_at("min repeat greater than max repeat", start)),
            false => Ok(Some((min, max))),
        }
    }

    /// A group, after its `(`; `None` for comments and flags of the whole expression.
    fn group(
        &mut self,
        start: usize,
        flags: &mut Flags,
        depth: usize,
        first: bool,
    ) -> Parse<Option<PatternNode>> {
        if !self.take('?') {
            return self.captured(None, start, *flags, depth).map(Some);
        }
        let ended = "unexpected end of pattern";
        let sign = self.get().ok_or_else(|| self.mistake(ended))?;
        if sign.escaped {
            return Err(self.unknown(&format!("?{}", sign.text()), start));
        }
        match sign.c {
            'P' if self.take('<') => {
                let at = self.at;
                let name = self.until('>', "group name")?;
                self.check_name(&name, at)?;
                self.captured(Some((name, at)), start, *flags, depth)
                    .map(Some)
            }
            'P' if self.take('=') => {
                let at = self.at;
                let name = self.until(')', "group name")?;
                self.check_name(&name, at)?;
                let group = self.named(&name, at)?;
                self.check_closed(group, at)?;
                Ok(Some(PatternNode::Back(group, *flags)))
            }
            'P' => match self.get() {
                None => Err(self.mistake(ended)),
                Some(token) => Err(self.unknown(&format!("?P{}", token.text()), start)),
            },
            '#' => loop {
                match self.get() {
                    None => {
                        return Err(self.mistake_at("missing ), unterminated comment", start));
                    }
                    Some(PatternToken {
                        c: ')',
                        escaped: false,
                    }) => return Ok(None),
                    Some(_) => {}
                }
            },
            ':' => {
                let body = self.body(start, *flags, depth)?;
                Ok(Some(PatternNode::Group(None, body)))
            }
            '>' => Ok(Some(PatternNode::Atomic(self.body(start, *flags, depth)?))),
            '=' | '!' | '<' => {
                let behind = sign.c == '<';
                let kind = match behind {
                    false => sign.c,
                    true => match self.get() {
                        None => return Err(self.mistake(ended)),
                        Some(PatternToken {
                            c: c @ ('=' | '!'),
                            escaped: false,
                        }) => c,
                        Some(other) => {
                            return Err(self.unknown(&format!("?<{}", other.text()), start));
                        }
                    },
                };
                let outer = self.behind;
                if behind && outer.is_none() {
                    self.behind = Some(self.widths.len());
                }
                let body = self.body(start, *flags, depth)?;
                self.behind = outer;
                Ok(Some(PatternNode::Look {
                    behind,
                    negated: kind == '!',
                    body,
                }))
            }
            '(' => self.conditional(start, *flags, depth).map(Some),
            c if c == '-' || "aiLmsux".contains(c) => {
                match self.inline_flags(c, *flags)? {
                    // Of the whole expression.
                    None if !first => {
                        Err(self
                            .mistake_at("global flags not at the start of the expression", start))
                    }
                    None => {
                        *flags = self.flags;
                        Ok(None)
                    }
                    Some(inner) => {
                        let body = self.body(start, inner, depth)?;
                        Ok(Some(PatternNode::Group(None, body)))
                    }
                }
            }
            c => Err(self.unknown(&format!("?{c}"), start)),
        }
    }

    fn body(&mut self, start: usize, flags: Flags, depth: usize) -> Parse<Vec<PatternNode>> {
        let body = self.alternatives(flags, depth + 1)?;
        match self.take(')') {
            true => Ok(body),
            false => Err(self.mistake_at("missing ), unterminated subpattern", start)),
        }
    }

    fn captured(
        &mut self,
        name: Option<(String, usize)>,
        start: usize,
        flags: Flags,
        depth: usize,
    ) -> Parse<PatternNode> {
        let number = self.widths.len();
        self.widths.push(None);
        if let Some((name, at)) = name
            && let Some(other) = self.names.insert(name.clone(), number)
        {
            let what =
                format!("redefinition of group name '{name}' as group {number}; was group {other}");
            return Err(self.mistake_at(&what, at));
        }
        let body = self.body(start, flags, depth)?;
        self.widths[number] = Some(width(&body, &self.widths));
        Ok(PatternNode::Group(Some(number), body))
    }

    fn conditional(&mut self, start: usize, flags: Flags, depth: usize) -> Parse<PatternNode> {
        let at = self.at;
        let name = self.until(')', "group name")?;
        let group = match is_identifier(&name) {
            true => self.named(&name, at)?,
            false => {
                let digits = name.bytes().all(|byte| byte.is_ascii_digit());
                let group = digits.then(|| name.parse::<usize>().unwrap_or(usize::MAX));
                let group = group.ok_or_else(|| {
                    self.mistake_at(&format!("bad character in group name '{name}'"), at)
                })?;
                if group == 0 {
                    return Err(self.mistake_at("bad group number", at));
                }
                self.wanted.push((group, at));
                group
            }
        };
        self.check_behind(group, at)?;
        if depth >= DEPTH {
            return Err(self.mistake("groups are nested too deeply"));
        }
        let yes = self.sequence(flags, depth + 1, false)?;
        let mut no = Vec::new();
        if self.take('|') {
            no = self.sequence(flags, depth + 1, false)?;
            if self.plain() == Some('|') {
                return Err(self.mistake("conditional backref with more than two branches"));
            }
        }
        match self.take(')') {
            true => Ok(PatternNode::Conditional(group, yes, no)),
            false => Err(self.mistake_at("missing ), unterminated subpattern", start)),
        }
    }

    fn named(&self, name: &str, at: usize) -> Parse<usize> {
        let group = self.names.get(name).copied();
        group.ok_or_else(|| self.mistake_at(&format!("unknown group name '{name}'"), at))
    }

    fn check_name(&self, name: &str, at: usize) -> Parse<()> {
        match is_identifier(name) {
            true => Ok(()),
            false => Err(self.mistake_at(&format!("bad character in group name '{name}'"), at)),
        }
    }

    fn is_closed(&self, group: usize) -> bool {
        self.widths.get(group).is_some_and(Option::is_some)
    }

    fn check_closed(&self, group: usize, at: usize) -> Parse<()> {
        match self.is_closed(group) {
            true => self.check_behind(group, at),
            false => Err(self.mistake_at("cannot refer to an open group", at)),
        }
    }

    fn check_behind(&self, group: usize, at: usize) -> Parse<()> {
        let Some(first) = self.behind else {
            return Ok(());
        };
        if !self.is_closed(group) {
            return Err(self.mistake_at("cannot refer to an open group", at));
        }
        match group < first {
            true => Ok(()),
            false => Err(self.mistake_at(
                "cannot refer to group defined in the same lookbehind subpattern",
                at,
            )),
        }
    }

    /// The flags inside of `(?flags:...)`; `None` for flags of the whole expression, which are set.
    fn inline_flags(&mut self, first: char, outer: Flags) -> Parse<Option<Flags>> {
        let mut add = String::new();
        let mut next = PatternToken {
            c: first,
            escaped: false,
        };
        if first != '-' {
            loop {
                if next.c == 'L' {
                    let what = "bad inline flags: cannot use 'L' flag with a str pattern";
                    return Err(self.mistake(what));
                }
                add.push(next.c);
                if add.contains('a') && add.contains('u') {
                    let what = "bad inline flags: flags 'a', 'u' and 'L' are incompatible";
                    return Err(self.mistake(what));
                }
                next = self.flag("missing -, : or )", ")-:")?;
                if ")-:".contains(next.c) {
                    break;
                }
            }
        }
        if next.c == ')' {
            set_flags(&mut self.flags, &add, true);
            self.types.0 |= add.contains('a');
            self.types.1 |= add.contains('u');
            return Ok(None);
        }
        let mut inner = outer;
        set_flags(&mut inner, &add, true);
        if next.c == '-' {
            next = self.flag("missing flag", "")?;
            let mut gone = String::new();
            loop {
                if "auL".contains(next.c) {
                    let what = "bad inline flags: cannot turn off flags 'a', 'u' and 'L'";
                    return Err(self.mistake(what));
                }
                if add.contains(next.c) {
                    let what = "bad inline flags: flag turned on and off";
                    return Err(self.mistake(what));
                }
                gone.push(next.c);
                next = self.flag("missing :", ":")?;
                if next.c == ':' {
                    break;
                }
            }
            set_flags(&mut inner, &gone, false);
        }
        Ok(Some(inner))
    }

    /// A flag, or one of the characters that may follow the flags.
    fn flag(&mut self, missing: &str, ends: &str) -> Parse<PatternToken> {
        match self.get() {
            None => Err(self.mistake(missing)),
            Some(token)
                if !token.escaped && (ends.contains(token.c) || "aiLmsux".contains(token.c)) =>
            {
                Ok(token)
            }
            Some(token) if !token.escaped && token.c.is_alphabetic() => {
                Err(self.mistake_at("unknown flag", self.at - 1))
            }
            Some(_) => Err(self.mistake_at(missing, self.at - 1)),
        }
    }

    /// A class of characters, after its `[`.
    fn set(&mut self, start: usize, flags: Flags) -> Parse<PatternNode> {
        let unterminated = |it: &Self| it.mistake_at("unterminated character set", start);
        let negated = self.take('^');
        let mut items = Vec::new();
        loop {
            let here = self.at;
            let token = self.get().ok_or_else(|| unterminated(self))?;
            if !token.escaped && token.c == ']' && !items.is_empty() {
                break;
            }
            let low = self.set_item(token, here)?;
            if !self.take('-') {
                items.push(low);
                continue;
            }
            let there = self.at;
            let token = self.get().ok_or_else(|| unterminated(self))?;
            if !token.escaped && token.c == ']' {
                items.extend([low, Item::Range('-'.into(), '-'.into())]);
                break;
            }
            match (low, self.set_item(token, there)?) {
                (Item::Range(low, _), Item::Range(high, _)) if low <= high => {
                    items.push(Item::Range(low, high));
                }
                _ => {
                    let shown: String = self.chars[here..self.at].iter().collect();
                    return Err(self.mistake_at(&format!("bad character range {shown}"), here));
                }
            }
        }
        Ok(PatternNode::Set(items, negated, flags))
    }

    fn set_item(&mut self, token: PatternToken, start: usize) -> Parse<Item> {
        let one = |c| Item::Range(c, c);
        if !token.escaped {
            return Ok(one(token.c.into()));
        }
        if let Some(item) = category(token.c) {
            return Ok(item);
        }
        if let Some(c) = self.escaped_char(token.c, start)? {
            return Ok(one(c));
        }
        match token.c {
            'b' => Ok(one(8)),
            '0'..='7' => {
                let digits = token.c.to_string() + &self.take_while(2, is_octal);
                self.octal(&digits, start).map(one)
            }
            c if c.is_ascii_alphanumeric() => {
                Err(self.mistake_at(&format!("bad escape \\{c}"), start))
            }
            c => Ok(one(c.into())),
        }
    }

    /// An escape outside of classes.
    fn escape(&mut self, c: char, start: usize, flags: Flags) -> Parse<PatternNode> {
        if let Some(item) = category(c) {
            return Ok(PatternNode::Set(vec![item], false, flags));
        }
        let place = match c {
            'A' => Some(PatternPlace::TextStart),
            'Z' => Some(PatternPlace::TextEnd),
            'b' => Some(PatternPlace::Boundary),
            'B' => Some(PatternPlace::NoBoundary),
            _ => None,
        };
        if let Some(place) = place {
            return Ok(PatternNode::Place(place, flags));
        }
        if let Some(c) = self.escaped_char(c, start)? {
            return Ok(PatternNode::Char(c, flags));
        }
        match c {
            '0' => {
                let digits = c.to_string() + &self.take_while(2, is_octal);
                self.octal(&digits, start)
                    .map(|c| PatternNode::Char(c, flags))
            }
            '1'..='9' => {
                let mut digits = c.to_string();
                digits += &self.take_while(1, |c| c.is_ascii_digit());
                if digits.len() == 2
                    && digits.chars().all(is_octal)
                    && self.plain().is_some_and(is_octal)
                {
                    digits += &self.take_while(1, is_octal);
                    return self
                        .octal(&digits, start)
                        .map(|c| PatternNode::Char(c, flags));
                }
                let group = digits.parse().unwrap_or(usize::MAX);
                if group >= self.widths.len() {
                    let what = format!("invalid group reference {group}");
                    return Err(self.mistake_at(&what, start + 1));
                }
                self.check_closed(group, start)?;
                Ok(PatternNode::Back(group, flags))
            }
            c if c.is_ascii_alphabetic() => {
                Err(self.mistake_at(&format!("bad escape \\{c}"), start))
            }
            c => Ok(PatternNode::Char(c.into(), flags)),
        }
    }

    /// The character of an escape that means one everywhere.
    fn escaped_char(&mut self, c: char, start: usize) -> Parse<Option<u32>> {
        let length = match c {
            'a' => return Ok(Some(7)),
            'f' => return Ok(Some(12)),
            'n' => return Ok(Some(10)),
            'r' => return Ok(Some(13)),
            't' => return Ok(Some(9)),
            'v' => return Ok(Some(11)),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            'N' => {
                let what = "characters by name (`\\N{...}`) are not available here: write `\\u` and four hexadecimal digits, or the character itself";
                return Err(self.mistake_at(what, start));
            }
            _ => return Ok(None),
        };
        let digits = self.take_while(length, |c| c.is_ascii_hexdigit());
        if digits.len() != length {
            let what = format!("incomplete escape \\{c}{digits}");
            return Err(self.mistake_at(&what, start));
        }
        match u32::from_str_radix(&digits, 16) {
            Ok(code) if code <= 0x10_ffff => Ok(Some(code)),
            _ => Err(self.mistake_at(&format!("bad escape \\{c}{digits}"), start)),
        }
    }

    fn octal(&self, digits: &str, start: usize) -> Parse<u32> {
        match u32::from_str_radix(digits, 8) {
            Ok(code) if code <= 0o377 => Ok(code),
            _ => {
                let what = format!("octal escape value \\{digits} outside of range 0-0o377");
                Err(self.mistake_at(&what, start))
            }
        }
    }
}

fn category(c: char) -> Option<Item> {
    Some(match c {
        'd' | 'D' => Item::Digit(c == 'd'),
        's' | 'S' => Item::Space(c == 's'),
        'w' | 'W' => Item::Word(c == 'w'),
        _ => return None,
    })
}

fn is_octal(c: char) -> bool {
    ('0'..='7').contains(&c)
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(char::is_numeric) && name.chars().all(|c| is_word(c.into(), false))
}

fn set_flags(flags: &mut Flags, letters: &str, on: bool) {
    for letter in letters.chars() {
        match letter {
            'a' => flags.ascii = on,
            'u' => flags.ascii = !on,
            'i' => flags.ignore_case = on,
            'm' => flags.multi_line = on,
            's' => flags.dot_all = on,
            'x' => flags.verbose = on,
            _ => {}
        }
    }
}
