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

use redis::{Ctx, Level, ServerAlloc};
use redis_module::{redis_module, Context, RedisString, Status};

fn load(context: &Context, args: &[RedisString]) -> Status {
    let ctx = redis::of_context(context);
    match register(&ctx, args) {
        Ok(()) => Status::Ok,
        Err(error) => {
            ctx.log(Level::Warning, &format!("dq: not loaded: {error}"));
            Status::Err
        }
    }
}

fn register(ctx: &Ctx, args: &[RedisString]) -> Result<(), String> {
    redis::log_panics();
    commands::ALL.iter().try_for_each(|command| redis::register(ctx, command))?;
    settings::ALL.iter().try_for_each(|setting| redis::register_setting(ctx, *setting))?;
    redis::load_configs(ctx)?;
    settings::take_arguments(&args.iter().map(RedisString::as_slice).collect::<Vec<_>>())?;
    settings::on_change(engine::settings_changed);
    redis::subscribe::<engine::ServerEvents>(ctx)?;
    redis::report_info::<engine::NodeInfo>(ctx)?;
    engine::load(ctx);
    ctx.log(Level::Notice, concat!("dq: version ", env!("CARGO_PKG_VERSION"), " is loaded"));
    Ok(())
}

fn unload(context: &Context) -> Status {
    let ctx = redis::of_context(context);
    if let Err(error) = engine::unload(&ctx) {
        ctx.log(Level::Warning, &format!("dq: not unloaded: {error}"));
        return Status::Err;
    }
    settings::forget_shown();
    redis::forget_panics();
    Status::Ok
}

redis_module! {
    name: "dq",
    version: 100,
    allocator: (ServerAlloc, ServerAlloc),
    data_types: [],
    init: load,
    deinit: unload,
}
