//! The limits of one rendering: memory, work and time. The engine itself counts steps only, and a
//! single step can compare two lists of a million texts.
//!
//! The meter belongs to the thread that renders. Filters, methods and operators report to it before
//! and while they work; once a bound is exceeded, all of them fail.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minijinja::{Error, Value};

use super::memory::live;
use super::refusal::invalid;

/// Bytes of one item in a list.
pub(super) const SLOT: usize = size_of::<Value>();

/// The limits of a rendering.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenderLimits {
    /// Steps of the engine.
    pub(super) fuel: u64,
    /// Bytes that it may hold at a time.
    pub(super) memory: usize,
    /// Bytes, roughly, that it may compare, copy or count.
    pub(super) work: u64,
    /// The longest time, for work that the other limits do not count.
    pub(super) time: Duration,
}

impl RenderLimits {
    /// Enough for nearly every template of a prompt or an observation, and used up within
    /// milliseconds: such a rendering is done in place.
    pub(super) const LIGHT: Self = Self {
        fuel: 20_000,
        memory: 16 << 20,
        work: 16 << 20,
        time: Duration::from_millis(20),
    };

    /// The largest limits: a loop over 50,000 lines of output with twenty steps a line takes half
    /// of the steps.
    pub(super) const FULL: Self = Self {
        fuel: 2_000_000,
        memory: 256 << 20,
        work: 1 << 30,
        time: Duration::from_secs(10),
    };
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Steps,
    Memory,
    Work,
    Time,
    /// Nesting of values.
    Depth,
    /// The printed text.
    Output,
    /// The caller no longer waits for the text.
    Abandoned,
}

impl Bound {
    /// Whether the same rendering may stay below this bound if the limits are larger.
    pub(super) fn depends_on_limits(self) -> bool {
        matches!(self, Self::Steps | Self::Memory | Self::Work | Self::Time)
    }

    /// The message.
    pub(super) fn message(self) -> String {
        let RenderLimits {
            fuel,
            memory,
            work,
            time,
        } = RenderLimits::FULL;
        match self {
            Self::Steps => format!("gave up after {fuel} steps"),
            Self::Memory => format!("gave up: it needs more than {} MiB", memory >> 20),
            Self::Work => format!(
                "gave up: it reads or copies more than {} GiB of texts and lists",
                work >> 30
            ),
            Self::Time => format!("gave up after {} s", time.as_secs()),
            Self::Depth => {
                format!("values are nested too deeply: more than {MAX_DEPTH} in each other")
            }
            Self::Output => format!("the rendered text exceeds {} MiB", super::MAX_OUTPUT >> 20),
            Self::Abandoned => "stopped, because its caller no longer waits".to_owned(),
        }
    }
}

/// How deeply values may be nested in each other.
pub(super) const MAX_DEPTH: usize = 200;

/// How much work is done between two checks of the clock.
const LOOK: u64 = 256 << 10;

/// The least work that a report counts.
const REPORT: u64 = 256;

struct RenderingMeter {
    /// None: no rendering is in progress, so nothing is limited.
    limits: Cell<Option<RenderLimits>>,
    start: Cell<isize>,
    work: Cell<u64>,
    next_look: Cell<u64>,
    printed: Cell<usize>,
    end: Cell<Option<Instant>>,
    abandoned: RefCell<Option<Arc<AtomicBool>>>,
    exceeded: Cell<Option<Bound>>,
}

thread_local! {
    static METER: RenderingMeter = const { RenderingMeter {
        limits: Cell::new(None),
        start: Cell::new(0),
        work: Cell::new(0),
        next_look: Cell::new(0),
        printed: Cell::new(0),
        end: Cell::new(None),
        abandoned: RefCell::new(None),
        exceeded: Cell::new(None),
    } };
}

/// Does `work` within `limits` until `abandoned` is set; also returns the exceeded limit.
pub(super) fn metered<T>(
    limits: RenderLimits,
    abandoned: Option<Arc<AtomicBool>>,
    work: impl FnOnce() -> T,
) -> (T, Option<Bound>) {
    METER.with(|meter| {
        meter.start.set(live());
        meter.work.set(0);
        meter.next_look.set(LOOK);
        meter.printed.set(0);
        meter.end.set(Some(Instant::now() + limits.time));
        *meter.abandoned.borrow_mut() = abandoned;
        meter.exceeded.set(None);
        meter.limits.set(Some(limits));
    });
    let done = work();
    METER.with(|meter| {
        meter.limits.set(None);
        *meter.abandoned.borrow_mut() = None;
        (done, meter.exceeded.get())
    })
}

fn error(bound: Bound) -> Error {
    invalid(bound.message())
}

/// Records that a limit is exceeded, so that everything that follows fails too.
pub(super) fn exceed(bound: Bound) -> Error {
    METER.with(|meter| {
        if meter.limits.get().is_some() && meter.exceeded.get().is_none() {
            meter.exceeded.set(Some(bound));
        }
    });
    error(bound)
}

/// Reports this many bytes of work.
pub(super) fn spend(bytes: usize) -> Result<(), Error> {
    METER.with(|meter| {
        let Some(limits) = meter.limits.get() else {
            return Ok(());
        };
        if let Some(bound) = meter.exceeded.get() {
            return Err(error(bound));
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let work = meter
            .work
            .get()
            .saturating_add(bytes)
            .saturating_add(REPORT);
        meter.work.set(work);
        if work > limits.work {
            return Err(exceed(Bound::Work));
        }
        if room(meter, limits) == 0 {
            return Err(exceed(Bound::Memory));
        }
        if work >= meter.next_look.get() {
            meter.next_look.set(work.saturating_add(LOOK));
            look(meter)?;
        }
        Ok(())
    })
}

fn look(meter: &RenderingMeter) -> Result<(), Error> {
    let abandoned = meter.abandoned.borrow();
    if abandoned
        .as_ref()
        .is_some_and(|abandoned| abandoned.load(Ordering::Relaxed))
    {
        return Err(exceed(Bound::Abandoned));
    }
    if meter.end.get().is_some_and(|end| Instant::now() > end) {
        return Err(exceed(Bound::Time));
    }
    Ok(())
}

/// Bytes that may still be allocated.
fn room(meter: &RenderingMeter, limits: RenderLimits) -> usize {
    let held = usize::try_from(live().wrapping_sub(meter.start.get())).unwrap_or(0);
    limits.memory.saturating_sub(held)
}

/// Checks, before or while something is built, that there is memory for this many bytes.
pub(super) fn has_room(bytes: usize) -> Result<(), Error> {
    METER.with(|meter| {
        if let Some(limits) = meter.limits.get()
            && bytes > room(meter, limits)
        {
            return Err(exceed(Bound::Memory));
        }
        Ok(())
    })?;
    spend(0)
}

/// Checks before a value of this size is built that there is memory for it, and reports the work.
pub(super) fn build(bytes: usize) -> Result<(), Error> {
    has_room(bytes)?;
    // copying is faster than other work
    spend(bytes / 4)
}

/// Reports text that is printed.
pub(super) fn print(bytes: usize) -> Result<(), Error> {
    spend(bytes)?;
    METER.with(|meter| {
        let printed = meter.printed.get().saturating_add(bytes);
        meter.printed.set(printed);
        if printed > super::MAX_OUTPUT {
            return Err(exceed(Bound::Output));
        }
        Ok(())
    })
}

/// Reports work on values other than text; each call checks the clock.
pub(super) fn tick() -> Result<(), Error> {
    spend(0)?;
    METER.with(|meter| match meter.limits.get() {
        Some(_) => look(meter),
        None => Ok(()),
    })
}
