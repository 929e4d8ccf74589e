//! DQ: a delayed task queue as a native part of a Redis or Valkey server.
//!
//! The floors, each of which knows only those below it:
//!
//! * `commands`: one file a command; parse, ask the queue, reply.
//! * `engine`: what acts by itself, and the clock, ids and timer that all share.
//! * `queue`: the state of one queue; every change of a key, with its effect.
//! * [`core`]: pure; job record, ids, receipts, backoff, clock, arguments.
//! * `redis`: the one door to the server; all `unsafe`.
//! * `settings`: every setting of the server.

mod commands;
pub mod core;
mod engine;
mod queue;
mod redis;
mod settings;

use redis::{Ctx, Level};

/// What MODULE LIST shows of the version in Cargo.toml: 0.1.0 is 100, 1.2.3 is 10203.
const MODULE_VERSION: i32 = {
    let [major, minor, patch] = core::version::parts(env!("CARGO_PKG_VERSION"));
    major * 10_000 + minor * 100 + patch
};

/// The functions that the server looks up by their names. Exporting one counts as unsafe code.
#[allow(unsafe_code)]
mod exports {
    use super::{load, unload, MODULE_VERSION};

    crate::server_module! {
        name: c"dq",
        version: MODULE_VERSION,
        load: load,
        unload: unload,
    }
}

fn load(ctx: &Ctx, args: &[&[u8]]) -> Result<(), String> {
    refuse_without_native_commands()?;
    commands::ALL.iter().try_for_each(|command| redis::register(ctx, command))?;
    settings::ALL.iter().try_for_each(|setting| redis::register_setting(ctx, *setting))?;
    redis::load_configs(ctx)?;
    settings::take_arguments(args)?;
    settings::on_change(engine::setting_changed);
    redis::subscribe::<engine::ServerEvents>(ctx)?;
    redis::report_info::<engine::NodeInfo>(ctx)?;
    engine::load(ctx);
    ctx.log(Level::Notice, concat!("dq: version ", env!("CARGO_PKG_VERSION"), " is loaded"));
    Ok(())
}

/// Without one of these commands some calls would be answered and their effects not written.
fn refuse_without_native_commands() -> Result<(), String> {
    redis::missing_command().map_or(Ok(()), |command| {
        let name = command.name();
        Err(format!(
            "the server has no command {name}, which DQ needs under this name. Remove the line rename-command {name} from \
             redis.conf, and take the command from users by an ACL instead"
        ))
    })
}

fn unload(ctx: &Ctx) -> Result<(), String> {
    engine::unload(ctx)?;
    settings::forget_shown();
    ctx.end_clients_that_hold("dq.");
    Ok(())
}
