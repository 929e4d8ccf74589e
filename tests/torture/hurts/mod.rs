//! An account under hurts: a server, its disk, its clock, its replica and its clients are hurt in every way that comes
//! to mind, alone and mixed, and each job is accounted for afterwards.

mod arena;
mod disk;
mod figures;
mod gang;
mod port;

mod clock;
mod connections;
mod freeze;
mod full_disk;
mod kills;
mod memory;
mod mixed;
mod refused;
mod replica;
mod saves;
mod workers;
