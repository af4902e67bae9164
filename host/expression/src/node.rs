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
pub enum Node {
    Char(u32, Flags),
    Any(Flags),
    Set(Vec<Item>, bool, Flags),
    Place(Place, Flags),
    Group(Option<usize>, Vec<Node>),
    Repeat(Repeat, Vec<Node>),
    Branch(Vec<Vec<Node>>),
    Look {
        behind: bool,
        negated: bool,
        body: Vec<Node>,
    },
    Atomic(Vec<Node>),
    Back(usize, Flags),
    Conditional(usize, Vec<Node>, Vec<Node>),
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
pub enum Place {
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
pub type Width = (u64, u64);

/// How many characters a sequence matches, with the widths of groups.
pub fn width(nodes: &[Node], groups: &[Option<Width>]) -> Width {
    let either = |a: Width, b: Width| (a.0.min(b.0), a.1.max(b.1));
    nodes.iter().fold((0_u64, 0_u64), |sum, node| {
        let (low, high) = match node {
            Node::Char(..) | Node::Any(_) | Node::Set(..) => (1, 1),
            Node::Place(..) | Node::Look { .. } => (0, 0),
            Node::Group(_, body) | Node::Atomic(body) => width(body, groups),
            Node::Branch(all) => {
                let widths = all.iter().map(|body| width(body, groups));
                widths.reduce(either).unwrap_or_default()
            }
            Node::Repeat(repeat, body) => {
                let (low, high) = width(body, groups);
                let high = match repeat.max {
                    NO_MAX if high > 0 => u64::MAX,
                    max => high.saturating_mul(max.into()),
                };
                (low.saturating_mul(repeat.min.into()), high)
            }
            Node::Back(group, _) => groups.get(*group).copied().flatten().unwrap_or_default(),
            Node::Conditional(_, yes, no) => either(width(yes, groups), width(no, groups)),
        };
        (sum.0.saturating_add(low), sum.1.saturating_add(high))
    })
}
