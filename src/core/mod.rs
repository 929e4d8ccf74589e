//! The pure part: knows no server, reads no clock, draws no random number, and is tested
//! without any of them.

pub mod args;
pub mod backoff;
pub mod clock;
pub mod glob;
pub mod ids;
pub mod life;
pub mod names;
pub mod openings;
pub mod place;
pub mod receipt;
pub mod record;
pub mod table;
pub mod version;
