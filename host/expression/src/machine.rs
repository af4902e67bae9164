//! Runs a program on a text by backtracking, in the order in which Python's `_sre` tries things,
//! with a bound on steps and memory.
//!
//! After many steps it remembers where it has failed for good (`Memo`), so that expressions like
//! `(a+)+$` need a time that grows with the text, and not with its power set. Python does not do
//! that; what is found is the same.

use crate::node::{Flags, Kind, NO_MAX, PatternPlace, Repeat};
use crate::program::{MatchOp, MatchProgram, Single};
use crate::unicode::{is_word, lower};
use crate::{FoundMatch, SearchTooHard};

/// The most steps of one search.
const STEPS: u64 = 20_000_000;
/// The steps after which failures are remembered.
const PATIENCE: u64 = 50_000;
/// The most entries of the stack.
const STACK: usize = 1 << 20;
/// The most bits that remember failures: 16 MiB.
const MEMORY: usize = 1 << 27;
const NOWHERE: usize = usize::MAX;

/// How a match has to lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SearchMode {
    /// It begins where the search begins.
    AtStart,
    /// It begins there or later.
    Search,
    /// It also ends behind the place where the search begins.
    Advance,
}

/// What is done when something fails, from the last entry to the first.
enum Undoing {
    Resume {
        op: usize,
        at: usize,
    },
    /// One character less, as long as it is behind `low`.
    Fewer {
        op: usize,
        low: usize,
        at: usize,
    },
    /// One character more.
    More {
        op: usize,
        at: usize,
        count: u32,
    },
    /// One more turn of a loop.
    Turn {
        op: usize,
        at: usize,
    },
    Mark(usize, usize),
    Counter(usize, Counter),
    /// Everything from an operation with a memo on has failed: the bit of this.
    Failed(usize),
    /// The start of an atomic group or of a look at what is around.
    Fence {
        at: usize,
        /// Where a negated look goes on when it has failed.
        next: Option<usize>,
    },
}

#[derive(Clone, Copy)]
struct Counter {
    count: u32,
    /// Where the last turn began.
    last: usize,
}

/// From where all attempts to go on have failed.
struct Memo {
    bits: Vec<u64>,
    memos: usize,
}

struct Matcher<'p> {
    program: &'p MatchProgram,
    text: &'p str,
    start: usize,
    mode: SearchMode,
    marks: Vec<usize>,
    counters: Vec<Counter>,
    stack: Vec<Undoing>,
    /// The indexes of fences on the stack.
    fences: Vec<usize>,
    steps: u64,
    memo: Option<Memo>,
}

/// Looks for the first match from a position on.
pub fn run(
    program: &MatchProgram,
    text: &str,
    start: usize,
    mode: SearchMode,
) -> Result<Option<FoundMatch>, SearchTooHard> {
    let literal = program.literal.as_str();
    if !literal.is_empty() && !text[start..].contains(literal) {
        return Ok(None);
    }
    let mut machine = Matcher {
        program,
        text,
        start,
        mode,
        marks: vec![NOWHERE; (program.groups + 1) * 2],
        counters: vec![
            Counter {
                count: 0,
                last: NOWHERE
            };
            program.counters
        ],
        stack: Vec::new(),
        fences: Vec::new(),
        steps: 0,
        memo: None,
    };
    let mut at = start;
    loop {
        if program.begins_with_literal && mode != SearchMode::AtStart {
            match text[at..].find(literal) {
                Some(next) => at += next,
                None => return Ok(None),
            }
        }
        if let Some(end) = machine.attempt(at)? {
            machine.marks[0] = at;
            machine.marks[1] = end;
            let groups = machine.marks.chunks(2).map(|pair| match pair {
                [start, end] if *start != NOWHERE && *end != NOWHERE => Some(*start..*end),
                _ => None,
            });
            return Ok(Some(FoundMatch {
                groups: groups.collect(),
            }));
        }
        if mode == SearchMode::AtStart || program.anchored {
            return Ok(None);
        }
        match text[at..].chars().next() {
            Some(c) => at += c.len_utf8(),
            None => return Ok(None),
        }
    }
}

impl Matcher<'_> {
    fn char_at(&self, at: usize) -> Option<char> {
        match self.text.as_bytes().get(at)? {
            byte if byte.is_ascii() => Some(char::from(*byte)),
            _ => self.text[at..].chars().next(),
        }
    }

    fn char_before(&self, at: usize) -> Option<char> {
        match self.text.as_bytes()[..at].last()? {
            byte if byte.is_ascii() => Some(char::from(*byte)),
            _ => self.text[..at].chars().next_back(),
        }
    }

    fn one(&self, single: &Single, at: usize) -> Option<usize> {
        let c = self.char_at(at).filter(|c| single.fits(*c))?;
        Some(at + c.len_utf8())
    }

    /// Counts work, and begins to remember failures when there was much of it.
    fn spend(&mut self, steps: u64) -> Result<(), SearchTooHard> {
        self.steps += steps;
        if self.steps > PATIENCE && self.memo.is_none() && self.program.memos > 0 {
            let memos = self.program.memos;
            let bits = (self.text.len() + 1).saturating_mul(memos);
            if bits <= MEMORY {
                let bits = vec![0; bits.div_ceil(64)];
                self.memo = Some(Memo { bits, memos });
            }
        }
        match self.steps > STEPS || self.stack.len() > STACK {
            true => Err(SearchTooHard),
            false => Ok(()),
        }
    }

    /// Whether going on here has failed before. If not, it will be noted when it has.
    fn has_failed(&mut self, memo: Option<usize>, at: usize) -> bool {
        let (Some(memo), Some(known)) = (memo, &self.memo) else {
            return false;
        };
        let bit = at * known.memos + memo;
        let failed = known.bits[bit / 64] >> (bit % 64) & 1 == 1;
        if !failed {
            self.stack.push(Undoing::Failed(bit));
        }
        failed
    }

    fn set_counter(&mut self, number: usize, counter: Counter) {
        self.stack
            .push(Undoing::Counter(number, self.counters[number]));
        self.counters[number] = counter;
    }

    /// Tries to match at a position; the end of the match.
    fn attempt(&mut self, start: usize) -> Result<Option<usize>, SearchTooHard> {
        self.stack.clear();
        self.fences.clear();
        self.marks.fill(NOWHERE);
        let mut state = Some((0, start));
        loop {
            self.spend(1)?;
            let Some((op, at)) = state else {
                match self.back()? {
                    Some(next) => state = Some(next),
                    None => return Ok(None),
                }
                continue;
            };
            if let MatchOp::Match = self.program.ops[op] {
                if self.mode != SearchMode::Advance || at != self.start {
                    return Ok(Some(at));
                }
                state = None;
                continue;
            }
            state = self.step(op, at)?;
        }
    }

    /// Does one operation: what comes next, or `None` if it has failed.
    fn step(&mut self, op: usize, at: usize) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let program = self.program;
        Ok(match &program.ops[op] {
            MatchOp::One(single) => self.one(single, at).map(|at| (op + 1, at)),
            MatchOp::Many { repeat, memo, .. } => return self.many(op, *repeat, *memo, at),
            MatchOp::Place(place, flag) => self.is_at(*place, *flag, at).then_some((op + 1, at)),
            MatchOp::Mark(mark) => {
                self.stack.push(Undoing::Mark(*mark, self.marks[*mark]));
                self.marks[*mark] = at;
                Some((op + 1, at))
            }
            MatchOp::Jump(target) => Some((*target, at)),
            MatchOp::Split {
                other,
                other_first,
                memo,
            } => {
                if self.has_failed(*memo, at) {
                    return Ok(None);
                }
                let (first, second) = match other_first {
                    true => (*other, op + 1),
                    false => (op + 1, *other),
                };
                self.stack.push(Undoing::Resume { op: second, at });
                Some((first, at))
            }
            MatchOp::LoopStart { counter, memo } => {
                if self.has_failed(*memo, at) {
                    return Ok(None);
                }
                let new = Counter {
                    count: 0,
                    last: NOWHERE,
                };
                self.set_counter(*counter, new);
                Some((op + 1, at))
            }
            MatchOp::Loop {
                counter,
                repeat,
                exit,
                memo,
            } => {
                let Counter { count, last } = self.counters[*counter];
                if count < repeat.min {
                    return Ok(Some((op + 1, at)));
                }
                // A turn that consumed nothing is the last one.
                if last != at && self.has_failed(*memo, at) {
                    return Ok(None);
                }
                let may_turn = (count < repeat.max || repeat.max == NO_MAX) && last != at;
                match (repeat.kind, may_turn) {
                    (_, false) => Some((*exit, at)),
                    (Kind::Lazy, true) => {
                        self.stack.push(Undoing::Turn { op, at });
                        Some((*exit, at))
                    }
                    (_, true) => {
                        self.stack.push(Undoing::Resume { op: *exit, at });
                        self.set_counter(*counter, Counter { count, last: at });
                        Some((op + 1, at))
                    }
                }
            }
            MatchOp::LoopNext(counter, start) => {
                let Counter { count, last } = self.counters[*counter];
                let count = count.saturating_add(1);
                self.set_counter(*counter, Counter { count, last });
                Some((*start, at))
            }
            MatchOp::Back(group, flags) => self.same_as(*group, *flags, at)?.map(|at| (op + 1, at)),
            MatchOp::Conditional(group, no) => match self.marks.get(group * 2 + 1) {
                Some(end) if *end != NOWHERE => Some((op + 1, at)),
                _ => Some((*no, at)),
            },
            MatchOp::Look {
                width,
                negated,
                next,
            } => {
                let mut from = Some(at);
                for _ in 0..*width {
                    from = from.and_then(|at| Some(at - self.char_before(at)?.len_utf8()));
                    if from.is_none() {
                        break;
                    }
                }
                match (from, negated) {
                    (None, true) => Some((*next, at)),
                    (None, false) => None,
                    (Some(from), _) => {
                        self.fence(at, negated.then_some(*next));
                        Some((op + 1, from))
                    }
                }
            }
            MatchOp::Atomic => {
                self.fence(at, None);
                Some((op + 1, at))
            }
            MatchOp::AtomicEnd => {
                self.close()?;
                Some((op + 1, at))
            }
            MatchOp::LookEnd(false) => {
                let before = self.close()?;
                Some((op + 1, before))
            }
            MatchOp::LookEnd(true) => {
                let fence = self.fences.pop().unwrap_or(0);
                while self.stack.len() > fence {
                    if let Some(entry) = self.stack.pop() {
                        self.undo(&entry);
                    }
                }
                None
            }
            MatchOp::Match => None,
        })
    }

    fn fence(&mut self, at: usize, next: Option<usize>) {
        self.fences.push(self.stack.len());
        self.stack.push(Undoing::Fence { at, next });
    }

    /// Forgets what else could have been tried since the last fence, but not what has to be undone.
    /// Returns the position of the fence.
    fn close(&mut self) -> Result<usize, SearchTooHard> {
        let fence = self.fences.pop().unwrap_or(0);
        let since = self.stack.split_off(fence);
        self.spend(since.len() as u64)?;
        let mut position = 0;
        for entry in since {
            match entry {
                Undoing::Fence { at, .. } => position = at,
                Undoing::Mark(..) | Undoing::Counter(..) => self.stack.push(entry),
                _ => {}
            }
        }
        Ok(position)
    }

    fn undo(&mut self, entry: &Undoing) {
        match *entry {
            Undoing::Mark(mark, before) => self.marks[mark] = before,
            Undoing::Counter(number, before) => self.counters[number] = before,
            _ => {}
        }
    }

    /// Takes back what was done since the last choice: where to go on, or `None` at the end.
    fn back(&mut self) -> Result<Option<(usize, usize)>, SearchTooHard> {
        while let Some(entry) = self.stack.pop() {
            match entry {
                Undoing::Resume { op, at } => return Ok(Some((op, at))),
                Undoing::Fewer { op, low, at } => {
                    if let Some(next) = self.fewer(op, low, at)? {
                        return Ok(Some(next));
                    }
                }
                Undoing::More { op, at, count } => {
                    if let Some(next) = self.more(op, at, count)? {
                        return Ok(Some(next));
                    }
                }
                Undoing::Turn { op, at } => {
                    if let MatchOp::Loop { counter, .. } = self.program.ops[op] {
                        let Counter { count, .. } = self.counters[counter];
                        self.set_counter(counter, Counter { count, last: at });
                    }
                    return Ok(Some((op + 1, at)));
                }
                Undoing::Fence { at, next } => {
                    self.fences.pop();
                    if let Some(next) = next {
                        return Ok(Some((next, at)));
                    }
                }
                Undoing::Failed(bit) => {
                    if let Some(known) = &mut self.memo {
                        known.bits[bit / 64] |= 1 << (bit % 64);
                    }
                }
                Undoing::Mark(..) | Undoing::Counter(..) => self.undo(&entry),
            }
        }
        Ok(None)
    }

    fn many(
        &mut self,
        op: usize,
        repeat: Repeat,
        memo: Option<usize>,
        at: usize,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let program = self.program;
        let MatchOp::Many { single, .. } = &program.ops[op] else {
            return Ok(None);
        };
        let Repeat { min, max, kind } = repeat;
        let is_loop = repeat.is_uncounted() && kind != Kind::Possessive && self.memo.is_some();
        if !is_loop && self.has_failed(memo, at) {
            return Ok(None);
        }
        let (mut end, mut count) = (at, 0);
        while count < min {
            let Some(next) = self.one(single, end) else {
                return Ok(None);
            };
            (end, count) = (next, count + 1);
        }
        self.spend(u64::from(count) / 8)?;
        // From here on, each number of characters is a state of its own.
        if is_loop && memo.is_some() {
            return self.more_or_fewer(op, end, kind, memo);
        }
        if kind == Kind::Lazy {
            return self.next_fit(op, end, count);
        }
        let low = end;
        match single {
            Single::All if max == NO_MAX => end = self.text.len(),
            _ => {
                let before = count;
                while count < max
                    && let Some(next) = self.one(single, end)
                {
                    (end, count) = (next, count + 1);
                }
                self.spend(u64::from(count - before) / 8)?;
            }
        }
        match kind {
            Kind::Possessive => Ok(Some((op + 1, end))),
            _ => self.first_fit(op, low, end),
        }
    }

    /// As [`Matcher::many`] when failures are remembered.
    fn more_or_fewer(
        &mut self,
        op: usize,
        mut at: usize,
        kind: Kind,
        memo: Option<usize>,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let program = self.program;
        let MatchOp::Many { single, .. } = &program.ops[op] else {
            return Ok(None);
        };
        if kind == Kind::Lazy {
            return Ok(match self.has_failed(memo, at) {
                true => None,
                false => {
                    self.stack.push(Undoing::More { op, at, count: 0 });
                    Some((op + 1, at))
                }
            });
        }
        loop {
            if self.has_failed(memo, at) {
                return Ok(None);
            }
            let Some(next) = self.one(single, at) else {
                return Ok(Some((op + 1, at)));
            };
            self.stack.push(Undoing::Resume { op: op + 1, at });
            self.spend(1)?;
            at = next;
        }
    }

    /// The greatest number of characters after which the next one fits.
    fn first_fit(
        &mut self,
        op: usize,
        low: usize,
        mut at: usize,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let MatchOp::Many { then, .. } = &self.program.ops[op] else {
            return Ok(None);
        };
        if let Some(c) = *then {
            let from = at;
            while self.char_at(at) != Some(c) {
                match self.char_before(at) {
                    Some(before) if at > low => at -= before.len_utf8(),
                    _ => return Ok(None),
                }
            }
            self.spend((from - at) as u64 / 8)?;
        }
        if at > low {
            self.stack.push(Undoing::Fewer { op, low, at });
        }
        Ok(Some((op + 1, at)))
    }

    fn fewer(
        &mut self,
        op: usize,
        low: usize,
        at: usize,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        match self.char_before(at) {
            Some(c) => self.first_fit(op, low, at - c.len_utf8()),
            None => Ok(None),
        }
    }

    /// The least number of characters from `count` on after which the next one fits.
    fn next_fit(
        &mut self,
        op: usize,
        mut at: usize,
        mut count: u32,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let program = self.program;
        let MatchOp::Many {
            single,
            repeat,
            then,
            ..
        } = &program.ops[op]
        else {
            return Ok(None);
        };
        if let Some(c) = *then {
            let from = at;
            match single {
                Single::All if repeat.max == NO_MAX => match self.text[at..].find(c) {
                    Some(next) => at += next,
                    None => return Ok(None),
                },
                _ => {
                    while self.char_at(at) != Some(c) {
                        match self.one(single, at) {
                            Some(next) if count < repeat.max => (at, count) = (next, count + 1),
                            _ => return Ok(None),
                        }
                    }
                }
            }
            self.spend((at - from) as u64 / 8)?;
        }
        if count < repeat.max {
            self.stack.push(Undoing::More { op, at, count });
        }
        Ok(Some((op + 1, at)))
    }

    fn more(
        &mut self,
        op: usize,
        at: usize,
        count: u32,
    ) -> Result<Option<(usize, usize)>, SearchTooHard> {
        let program = self.program;
        let MatchOp::Many {
            single,
            memo,
            repeat,
            ..
        } = &program.ops[op]
        else {
            return Ok(None);
        };
        let Some(next) = self.one(single, at) else {
            return Ok(None);
        };
        match self.memo.is_some() && memo.is_some() && repeat.is_uncounted() {
            true => self.more_or_fewer(op, next, repeat.kind, *memo),
            false => self.next_fit(op, next, count.saturating_add(1)),
        }
    }

    fn is_at(&self, place: PatternPlace, flag: bool, at: usize) -> bool {
        let rest = &self.text.as_bytes()[at..];
        let boundary = || {
            let is_word = |c: Option<char>| c.is_some_and(|c| is_word(c.into(), flag));
            is_word(self.char_before(at)) != is_word(self.char_at(at))
        };
        match place {
            PatternPlace::TextStart => at == 0,
            PatternPlace::LineStart => at == 0 || self.text.as_bytes()[at - 1] == b'\n',
            PatternPlace::TextEnd => rest.is_empty(),
            PatternPlace::LineEnd => rest.is_empty() || rest == b"\n" || (flag && rest[0] == b'\n'),
            PatternPlace::Boundary => !self.text.is_empty() && boundary(),
            PatternPlace::NoBoundary => !self.text.is_empty() && !boundary(),
        }
    }

    /// Where the text of a group ends, if it stands here again.
    fn same_as(
        &mut self,
        group: usize,
        flags: Flags,
        at: usize,
    ) -> Result<Option<usize>, SearchTooHard> {
        let (start, end) = (self.marks[group * 2], self.marks[group * 2 + 1]);
        if start == NOWHERE || end == NOWHERE || end < start {
            return Ok(None);
        }
        let (wanted, rest) = (&self.text[start..end], &self.text[at..]);
        self.steps += wanted.len() as u64 / 8;
        if !flags.ignore_case {
            return Ok(rest.starts_with(wanted).then_some(at + wanted.len()));
        }
        let mut end = at;
        let mut here = rest.chars();
        for c in wanted.chars() {
            let low = |c: char| lower(c.into(), flags.ascii);
            match here.next() {
                Some(other) if low(other) == low(c) => end += other.len_utf8(),
                _ => return Ok(None),
            }
        }
        Ok(Some(end))
    }
}
