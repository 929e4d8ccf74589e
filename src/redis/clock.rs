//! The clocks of the machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// µs since the machine started, sleep included; no step of the system's clock moves it.
pub fn boot_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the struct that it is given; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// µs since 1970 by the system's clock; 0 where it is set before that.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
