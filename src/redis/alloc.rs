//! Memory from the server's allocator, so that it is counted in `used_memory` and bounded by `maxmemory`.

use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout, System};

/// The server's allocator once the module is loaded; the system's in a program that only links the library (tests,
/// benches). No memory crosses the two: nothing is allocated in a server before its table of functions is filled.
pub struct ServerAlloc;

/// The largest alignment that every server's allocator gives to a block of any size. The jemalloc that Redis and Valkey
/// bring along has size classes of 24, 40 and 56 bytes, which are aligned to 8; that of Debian has not.
const NATURAL_ALIGN: usize = 8;

fn padded(layout: Layout) -> usize {
    if layout.align() <= NATURAL_ALIGN {
        layout.size()
    } else {
        layout.pad_to_align().size()
    }
}

// SAFETY: both allocators below keep the contract of `GlobalAlloc`; which one serves is fixed before the first call.
unsafe impl GlobalAlloc for ServerAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not zero (the caller's duty) and the server's allocator aligns to 8 bytes; a block whose
        // size is a multiple of a larger alignment is aligned to it by jemalloc, as the crate's own allocator relies on.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) => alloc(padded(layout)).cast(),
                None => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from the allocator that serves now (see the type's comment).
        unsafe {
            match raw::RedisModule_Free {
                Some(free) => free(ptr.cast()),
                None => System.dealloc(ptr, layout),
            }
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: `ptr` came from the allocator that serves now; alignment is as in `alloc`.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) => {
                    let wanted = Layout::from_size_align_unchecked(new_size, layout.align());
                    realloc(ptr.cast(), padded(wanted)).cast()
                }
                None => System.realloc(ptr, layout, new_size),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the blocks that the jemalloc of Redis and Valkey gives, as far as they are close together.
    fn size_class(size: usize) -> usize {
        let classes = (8..=64).step_by(8).chain([80, 96, 112, 128, 160, 192, 224, 256]);
        classes.into_iter().find(|class| *class >= size).expect("a small size")
    }

    #[test]
    fn blocks_are_aligned_as_they_are_asked_for() {
        for align in [1, 2, 4, 8, 16] {
            for size in 1..=256 {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                let class = size_class(padded(layout));
                // Blocks of one class stand one behind the other from a page's beginning on.
                assert!(padded(layout) >= size && class.is_multiple_of(align), "{layout:?} in blocks of {class}");
            }
        }
    }
}
