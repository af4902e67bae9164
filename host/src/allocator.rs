//! The process's allocator: mimalloc, because musl's is slow and has one lock. The crate `mimalloc` passes
//! the alignment in each call, which takes a slower path.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

struct Mimalloc;

/// mimalloc gives every block of at least this size this alignment, without the detour of its functions that take
/// an alignment.
const NATURAL_ALIGNMENT: usize = 16;

const fn is_natural(align: usize, size: usize) -> bool {
    align <= NATURAL_ALIGNMENT && align <= size
}

#[global_allocator]
static ALLOCATOR: Mimalloc = Mimalloc;

// SAFETY: every call is passed to mimalloc, with the alignment if mimalloc does not keep it by itself.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: mimalloc takes any size, and an alignment that is a power of two.
        let place = unsafe {
            match is_natural(align, size) {
                true => mimalloc::mi_malloc(size),
                false => mimalloc::mi_malloc_aligned(size, align),
            }
        };
        place.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        // SAFETY: mimalloc takes any size, and an alignment that is a power of two.
        let place = unsafe {
            match is_natural(align, size) {
                true => mimalloc::mi_zalloc(size),
                false => mimalloc::mi_zalloc_aligned(size, align),
            }
        };
        place.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, _: Layout) {
        // SAFETY: the caller has `place` from this allocator.
        unsafe { mimalloc::mi_free(place.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let align = layout.align();
        // SAFETY: the caller has `place` from this allocator. A block that stays in its place is aligned already; a
        // new one is aligned as in `alloc`.
        let moved = unsafe {
            match is_natural(align, new_size) {
                true => mimalloc::mi_realloc(place.cast(), new_size),
                false => mimalloc::mi_realloc_aligned(place.cast(), new_size, align),
            }
        };
        moved.cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_alignment_of_their_layout() {
        for align in (0..=12).map(|power| 1 << power) {
            for size in [1, 7, 8, 9, 15, 16, 17, 24, 40, 100, 1 << 10, 1 << 17] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let larger = Layout::from_size_align(size + 25, align).unwrap();
                // SAFETY: the size is not 0, and each block is freed with the layout that it has then.
                unsafe {
                    // Several at once, because the first one of a page is always aligned.
                    let blocks = [(); 8].map(|()| ALLOCATOR.alloc(layout));
                    for place in blocks {
                        assert_eq!(place.addr() % align, 0, "{layout:?}");
                        place.write_bytes(7, size);
                    }
                    for place in blocks.map(|it| ALLOCATOR.realloc(it, layout, larger.size())) {
                        assert_eq!(place.addr() % align, 0, "{layout:?}");
                        assert_eq!(*place.add(size - 1), 7);
                        ALLOCATOR.dealloc(place, larger);
                    }
                    let zeroed = ALLOCATOR.alloc_zeroed(layout);
                    assert_eq!((zeroed.addr() % align, *zeroed.add(size - 1)), (0, 0));
                    ALLOCATOR.dealloc(zeroed, layout);
                }
            }
        }
    }
}
