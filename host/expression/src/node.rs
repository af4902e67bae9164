//! The parts of an expression, and how many characters they match.

/// No upper bound of a repetition.
pub const NO_MAX: u32 = u32::MAX;

/// The flags of `(?aimsux)` in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flags {
    pub ascii: bool,
    pub ignore_case: bool,
    pub multi_line: bool,
    pub dot_all: bool,
    pub verbose: bool,
}

/// A part of an expression. Parts whose meaning depends on flags have them.
#[derive(Clone, Debug)]
pub enum PatternNode {
    Char(u32, Flags),
    Any(Flags),
    Set(Vec<Item>, bool, Flags),
    Place(PatternPlace, Flags),
    Group(Option<usize>, Vec<PatternNode>),
    Repeat(Repeat, Vec<PatternNode>),
    Branch(Vec<Vec<PatternNode>>),
    Look {
        behind: bool,
        negated: bool,
        body: Vec<PatternNode>,
    },
    Atomic(Vec<PatternNode>),
    Back(usize, Flags),
    Conditional(usize, Vec<PatternNode>, Vec<PatternNode>),
}

/// What a class of characters holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    Range(u32, u32),
    Digit(bool),
    Space(bool),
    Word(bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PatternPlace {
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    Boundary,
    NoBoundary,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    pub min: u32,
    pub max: u32,
    pub kind: Kind,
}

impl Repeat {
    /// Whether what may follow does not depend on how many there were, once there was one.
    pub fn is_uncounted(self) -> bool {
        self.max == NO_MAX && self.min <= 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Greedy,
    Lazy,
    Possessive,
}

/// The least and the greatest number of characters that something matches.
pub type MatchWidth = (u64, u64);

/// How many characters a sequence matches, with the widths of groups.
pub fn width(nodes: &[PatternNode], groups: &[Option<MatchWidth>]) -> MatchWidth {
    let either = |a: MatchWidth, b: MatchWidth| (a.0.min(b.0), a.1.max(b.1));
    nodes.iter().fold((0_u64, 0_u64), |sum, node| {
        let (low, high) = match node {
            PatternNode::Char(..) | PatternNode::Any(_) | PatternNode::Set(..) => (1, 1),
            PatternNode::Place(..) | PatternNode::Look { .. } => (0, 0),
            PatternNode::Group(_, body) | PatternNode::Atomic(body) => width(body, groups),
            PatternNode::Branch(all) => {
                let widths = all.iter().map(|body| width(body, groups));
                widths.reduce(either).unwrap_or_default()
            }
            PatternNode::Repeat(repeat, body) => {
                let (low, high) = width(body, groups);
                let high = match repeat.max {
                    NO_MAX if high > 0 => u64::MAX,
                    max => high.saturating_mul(max.into()),
                };
                (low.saturating_mul(repeat.min.into()), high)
            }
            PatternNode::Back(group, _) => {
                groups.get(*group).copied().flatten().unwrap_or_default()
            }
            PatternNode::Conditional(_, yes, no) => either(width(yes, groups), width(no, groups)),
        };
        (sum.0.saturating_add(low), sum.1.saturating_add(high))
    })
}
