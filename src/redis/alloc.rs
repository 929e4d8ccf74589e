//! Memory from the server's allocator, so that it is counted in `used_memory` and bounded by `maxmemory`.

use redis_module::raw;
use std::alloc::{GlobalAlloc, Layout, System};

/// The server's allocator once the module is loaded; the system's in a program that only links the library (tests,
/// benches). No memory crosses the two: nothing is allocated in a server before its table of functions is filled.
pub struct ServerAlloc;

/// The largest alignment that every C allocator gives without being asked.
const NATURAL_ALIGN: usize = 16;

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
        // SAFETY: the size is not zero (the caller's duty) and the server's allocator aligns to 16 bytes; a block
        // padded to a larger power of two is aligned to it by jemalloc, as the crate's own allocator relies on.
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
