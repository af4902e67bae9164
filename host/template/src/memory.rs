//! Counts what each thread has allocated, so that a rendering's memory can be limited: all values
//! that a template builds are allocated by its thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use mimalloc::MiMalloc as Underlying;

/// mimalloc with a counter.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Without a destructor and without lazy initialisation, so that it works in every state of a
    /// thread.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed. Memory that another thread frees stays
/// counted, so the number is useful only as a difference before and after work that shares no
/// memory with other threads.
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

// SAFETY: every call is passed to the allocator below unchanged; counting allocates nothing and
// can't unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        let place = unsafe { Underlying.alloc(layout) };
        if !place.is_null() {
            count(layout.size(), 0);
        }
        place
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`.
        let place = unsafe { Underlying.alloc_zeroed(layout) };
        if !place.is_null() {
            count(layout.size(), 0);
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { Underlying.dealloc(place, layout) };
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`.
        let moved = unsafe { Underlying.realloc(place, layout, new_size) };
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
