//! Counts what each thread has allocated, so that a rendering can be held to a limit: whatever
//! a template builds, by whatever operator or filter, is memory that its thread has taken.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Without a destructor and without lazy initialisation: it works in every state of a thread.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed. What another thread frees for it stays
/// counted, so only differences over a piece of work that shares nothing mean something.
pub(super) fn live() -> isize {
    LIVE.get()
}

fn count(more: usize, less: usize) {
    // No allocation has more than `isize::MAX` bytes.
    LIVE.set(
        LIVE.get()
            .wrapping_add(more.cast_signed())
            .wrapping_sub(less.cast_signed()),
    );
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing and
// can't unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let place = unsafe { System.alloc(layout) };
        if !place.is_null() {
            count(layout.size(), 0);
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let place = unsafe { System.alloc_zeroed(layout) };
        if !place.is_null() {
            count(layout.size(), 0);
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(place, layout) };
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        let moved = unsafe { System.realloc(place, layout, new_size) };
        if !moved.is_null() {
            count(new_size, layout.size());
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_the_thread_holds() {
        let before = live();
        let mut text = "x".repeat(1 << 20);
        assert_eq!(live() - before, 1 << 20);
        text.reserve_exact(1 << 20);
        assert_eq!(live() - before, 2 << 20);
        std::thread::spawn(|| assert!(live() < 1 << 20))
            .join()
            .unwrap();
        drop(text);
        assert!((live() - before).abs() < 1 << 12);
    }
}
