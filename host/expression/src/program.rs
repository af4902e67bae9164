//! What an expression is compiled to: a list of operations, without its repetitions written out.

use crate::Mistake;
use crate::node::{Flags, Item, Kind, PatternNode, PatternPlace, Repeat};
use crate::parse::ParsedPattern;
use crate::unicode::{any_case, fold, is_digit, is_space, is_word, lower};

/// The index of an operation.
pub type OpIndex = usize;

#[derive(Clone, Debug)]
pub enum MatchOp {
    One(Single),
    /// As many of one kind of character as bounds say.
    Many {
        single: Single,
        repeat: Repeat,
        /// The character that has to follow.
        then: Option<char>,
        /// The number under which failures here are remembered, where what fails once fails again.
        memo: Option<usize>,
    },
    Place(PatternPlace, bool),
    /// Notes the position as the start or the end of a group.
    Mark(usize),
    Jump(OpIndex),
    /// Tries the next operation, then the other; or the other one first.
    Split {
        other: OpIndex,
        other_first: bool,
        memo: Option<usize>,
    },
    /// Begins a repetition.
    LoopStart {
        counter: usize,
        memo: Option<usize>,
    },
    Loop {
        counter: usize,
        repeat: Repeat,
        exit: OpIndex,
        memo: Option<usize>,
    },
    LoopNext(usize, OpIndex),
    Back(usize, Flags),
    Conditional(usize, OpIndex),
    /// Tries what follows up to [`MatchOp::LookEnd`], `width` characters before.
    Look {
        width: usize,
        negated: bool,
        next: OpIndex,
    },
    LookEnd(bool),
    Atomic,
    AtomicEnd,
    Match,
}

/// What matches one character.
#[derive(Clone, Debug)]
pub enum Single {
    Char(char),
    /// Without regard to case.
    Folded(u32, bool),
    NotNewline,
    All,
    Set(Box<Set>),
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Set {
    /// For ASCII, a bit for each character.
    ascii: u128,
    items: Vec<Item>,
    negated: bool,
    flags: Flags,
}

impl Set {
    fn new(items: Vec<Item>, negated: bool, flags: Flags) -> Self {
        let mut set = Self {
            ascii: 0,
            items,
            negated,
            flags,
        };
        for c in 0..128 {
            set.ascii |= u128::from(set.holds(c)) << c;
        }
        set
    }

    fn holds(&self, c: u32) -> bool {
        let (ascii, cased) = (self.flags.ascii, self.flags.ignore_case);
        let low = if cased { lower(c, ascii) } else { c };
        let fits = |item: &Item| match *item {
            Item::Range(first, last) if cased => {
                any_case(c, ascii, |c| (first..=last).contains(&c))
            }
            Item::Range(first, last) => (first..=last).contains(&c),
            Item::Digit(is) => is_digit(low, ascii) == is,
            Item::Space(is) => is_space(low, ascii) == is,
            Item::Word(is) => is_word(low, ascii) == is,
        };
        self.items.iter().any(fits) != self.negated
    }
}

impl Single {
    pub fn fits(&self, c: char) -> bool {
        match self {
            Self::Char(own) => c == *own,
            Self::Folded(own, ascii) => fold(c.into(), *ascii) == *own,
            Self::NotNewline => c != '\n',
            Self::All => true,
            Self::Set(set) if c.is_ascii() => set.ascii >> u32::from(c) & 1 == 1,
            Self::Set(set) => set.holds(c.into()),
            Self::Nothing => false,
        }
    }
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct MatchProgram {
    pub ops: Vec<MatchOp>,
    /// Without the whole match.
    pub groups: usize,
    pub counters: usize,
    /// How many operations have a memo.
    pub memos: usize,
    /// A text that every match contains; and begins with, if so.
    pub literal: String,
    pub begins_with_literal: bool,
    /// Every match begins at the start of the text.
    pub anchored: bool,
}

/// Compiles what was read.
pub fn compile(parsed: &ParsedPattern) -> Result<MatchProgram, Mistake> {
    let mut compiler = PatternCompiler {
        parsed,
        ops: Vec::new(),
        counters: 0,
        memos: 0,
        uses_groups: false,
    };
    compiler.sequence(&parsed.nodes, true)?;
    compiler.ops.push(MatchOp::Match);
    let mut literals = Literals::default();
    literals.sequence(&parsed.nodes);
    literals.end();
    let anchored = match parsed.nodes.first() {
        Some(PatternNode::Place(PatternPlace::TextStart, _)) => true,
        Some(PatternNode::Place(PatternPlace::LineStart, flags)) => !flags.multi_line,
        _ => false,
    };
    let mut program = MatchProgram {
        ops: compiler.ops,
        groups: parsed.widths.len() - 1,
        counters: compiler.counters,
        // With references to groups, what follows depends on more than the position.
        memos: match compiler.uses_groups {
            true => 0,
            false => compiler.memos,
        },
        begins_with_literal: literals.longest_is_first,
        literal: literals.longest,
        anchored,
    };
    program.look_ahead();
    Ok(program)
}

impl MatchProgram {
    /// Notes at repetitions of one character which one has to follow.
    fn look_ahead(&mut self) {
        for at in 0..self.ops.len() {
            let mut after = self.ops[at + 1..].iter();
            let next = after.find(|op| !matches!(op, MatchOp::Mark(_)));
            let Some(MatchOp::One(Single::Char(c))) = next else {
                continue;
            };
            let c = *c;
            if let MatchOp::Many { then, .. } = &mut self.ops[at] {
                *then = Some(c);
            }
        }
    }
}

struct PatternCompiler<'p> {
    parsed: &'p ParsedPattern,
    ops: Vec<MatchOp>,
    counters: usize,
    memos: usize,
    uses_groups: bool,
}

impl PatternCompiler<'_> {
    /// `free`: whether what follows depends on the position alone, not on a counter, and the end of
    /// what is compiled is the end of the search, so that a failure is one for good.
    fn sequence(&mut self, nodes: &[PatternNode], free: bool) -> Result<(), Mistake> {
        nodes.iter().try_for_each(|node| self.node(node, free))
    }

    fn memo(&mut self, free: bool) -> Option<usize> {
        self.memos += usize::from(free);
        free.then(|| self.memos - 1)
    }

    fn node(&mut self, node: &PatternNode, free: bool) -> Result<(), Mistake> {
        if let Some(single) = single(node) {
            self.ops.push(MatchOp::One(single));
            return Ok(());
        }
        match node {
            PatternNode::Place(place, flags) => {
                let place = match place {
                    PatternPlace::LineStart if !flags.multi_line => PatternPlace::TextStart,
                    place => *place,
                };
                // `$` stands before a last line break; in several lines, before each of them.
                let flag = match place {
                    PatternPlace::LineEnd => flags.multi_line,
                    _ => flags.ascii,
                };
                self.ops.push(MatchOp::Place(place, flag));
            }
            PatternNode::Group(None, body) => self.sequence(body, free)?,
            PatternNode::Group(Some(number), body) => {
                self.ops.push(MatchOp::Mark(number * 2));
                self.sequence(body, free)?;
                self.ops.push(MatchOp::Mark(number * 2 + 1));
            }
            PatternNode::Atomic(body) => {
                self.ops.push(MatchOp::Atomic);
                self.sequence(body, false)?;
                self.ops.push(MatchOp::AtomicEnd);
            }
            PatternNode::Branch(all) => self.branch(all, free)?,
            PatternNode::Repeat(repeat, body) => self.repeat(*repeat, body, free)?,
            PatternNode::Look {
                behind,
                negated,
                body,
            } => {
                let (width, greatest) = match behind {
                    true => self.parsed.width(body),
                    false => (0, 0),
                };
                if width != greatest {
                    return Err(Mistake {
                        what: "look-behind requires fixed-width pattern".to_owned(),
                        position: None,
                    });
                }
                let at = self.ops.len();
                self.ops.push(MatchOp::Look {
                    width: usize::try_from(width).unwrap_or(usize::MAX),
                    negated: *negated,
                    next: 0,
                });
                self.sequence(body, false)?;
                self.ops.push(MatchOp::LookEnd(*negated));
                let end = self.ops.len();
                if let MatchOp::Look { next, .. } = &mut self.ops[at] {
                    *next = end;
                }
            }
            PatternNode::Back(group, flags) => {
                self.uses_groups = true;
                self.ops.push(MatchOp::Back(*group, *flags));
            }
            PatternNode::Conditional(group, yes, no) => {
                self.uses_groups = true;
                let at = self.ops.len();
                self.ops.push(MatchOp::Conditional(*group, 0));
                self.sequence(yes, free)?;
                let jump = self.ops.len();
                self.ops.push(MatchOp::Jump(0));
                self.ops[at] = MatchOp::Conditional(*group, jump + 1);
                self.sequence(no, free)?;
                self.ops[jump] = MatchOp::Jump(self.ops.len());
            }
            PatternNode::Char(..) | PatternNode::Any(_) | PatternNode::Set(..) => {}
        }
        Ok(())
    }

    fn branch(&mut self, all: &[Vec<PatternNode>], free: bool) -> Result<(), Mistake> {
        let mut jumps = Vec::new();
        for (number, body) in all.iter().enumerate() {
            if number + 1 == all.len() {
                self.sequence(body, free)?;
                break;
            }
            let split = self.ops.len();
            let memo = self.memo(free);
            self.ops.push(MatchOp::Jump(0));
            self.sequence(body, free)?;
            jumps.push(self.ops.len());
            self.ops.push(MatchOp::Jump(0));
            self.ops[split] = MatchOp::Split {
                other: self.ops.len(),
                other_first: false,
                memo,
            };
        }
        let end = self.ops.len();
        for jump in jumps {
            self.ops[jump] = MatchOp::Jump(end);
        }
        Ok(())
    }

    fn repeat(&mut self, repeat: Repeat, body: &[PatternNode], free: bool) -> Result<(), Mistake> {
        let Repeat { min, max, kind } = repeat;
        if let [node] = body
            && let Some(single) = single(node)
        {
            let memo = self.memo(free);
            self.ops.push(MatchOp::Many {
                single,
                repeat,
                then: None,
                memo,
            });
            return Ok(());
        }
        match kind {
            Kind::Possessive => {
                // No repetition is tried in another way, and neither is their number.
                let greedy = Repeat {
                    kind: Kind::Greedy,
                    ..repeat
                };
                self.ops.push(MatchOp::Atomic);
                self.repeat(greedy, &[PatternNode::Atomic(body.to_vec())], false)?;
                self.ops.push(MatchOp::AtomicEnd);
            }
            kind if (min, max) == (0, 1) => {
                let split = self.ops.len();
                let memo = self.memo(free);
                self.ops.push(MatchOp::Jump(0));
                self.sequence(body, free)?;
                self.ops[split] = MatchOp::Split {
                    other: self.ops.len(),
                    other_first: kind == Kind::Lazy,
                    memo,
                };
            }
            _ => {
                let counter = self.counters;
                self.counters += 1;
                let memo = self.memo(free);
                self.ops.push(MatchOp::LoopStart { counter, memo });
                let free = free && repeat.is_uncounted();
                let start = self.ops.len();
                let memo = self.memo(free);
                self.ops.push(MatchOp::Jump(0));
                self.sequence(body, free)?;
                self.ops.push(MatchOp::LoopNext(counter, start));
                self.ops[start] = MatchOp::Loop {
                    counter,
                    repeat,
                    exit: self.ops.len(),
                    memo,
                };
            }
        }
        Ok(())
    }
}

fn single(node: &PatternNode) -> Option<Single> {
    Some(match node {
        PatternNode::Char(c, flags) if flags.ignore_case => {
            Single::Folded(fold(*c, flags.ascii), flags.ascii)
        }
        // Half of a surrogate pair is in no text.
        PatternNode::Char(c, _) => char::from_u32(*c).map_or(Single::Nothing, Single::Char),
        PatternNode::Any(flags) if flags.dot_all => Single::All,
        PatternNode::Any(_) => Single::NotNewline,
        PatternNode::Set(items, negated, flags) => match (&items[..], negated, flags.ignore_case) {
            ([Item::Range(a, b)], false, false) if a == b => {
                char::from_u32(*a).map_or(Single::Nothing, Single::Char)
            }
            _ => Single::Set(Box::new(Set::new(items.clone(), *negated, *flags))),
        },
        _ => return None,
    })
}

/// Looks for the longest text that every match contains.
#[derive(Default)]
struct Literals {
    run: String,
    longest: String,
    longest_is_first: bool,
    /// Whether something was before the run.
    is_later: bool,
}

impl Literals {
    fn sequence(&mut self, nodes: &[PatternNode]) {
        for node in nodes {
            match node {
                PatternNode::Group(_, body) => self.sequence(body),
                node => match single(node) {
                    Some(Single::Char(c)) => self.run.push(c),
                    _ => self.end(),
                },
            }
        }
    }

    fn end(&mut self) {
        if self.run.len() > self.longest.len() {
            self.longest = std::mem::take(&mut self.run);
            self.longest_is_first = !self.is_later;
        }
        self.run.clear();
        self.is_later = true;
    }
}
