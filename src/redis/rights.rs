//! What the server's ACL lets a user do.

use super::api;
use super::text::Text;
use redis_module::raw;
use std::io;

/// The server's answer on one command of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Granted,
    Denied,
    /// The server has no command of this name.
    NoSuchCommand,
}

/// Whether the user may run a command, its name first, with those keys. A command without all the arguments that it
/// needs is undefined behavior on some servers, so callers give a complete one. A user that is not there has no rights.
pub(super) fn right_of(user: &Text, command: &[&[u8]]) -> Right {
    let texts: Vec<_> = command.iter().map(|word| Text::new(word)).collect();
    let mut argv: Vec<_> = texts.iter().map(Text::raw).collect();
    // SAFETY: the strings live through the calls; the user is freed once, here.
    let granted = unsafe {
        let user = api!(RedisModule_GetModuleUserFromUserName(user.raw()));
        if user.is_null() {
            return Right::Denied;
        }
        let status = api!(RedisModule_ACLCheckCommandPermissions(user, argv.as_mut_ptr(), argv.len() as i32));
        // Read before anything else can change it.
        let error = io::Error::last_os_error();
        api!(RedisModule_FreeModuleUser(user));
        if status == raw::REDISMODULE_OK as i32 {
            Ok(())
        } else {
            Err(error.kind())
        }
    };
    match granted {
        Ok(()) => Right::Granted,
        Err(io::ErrorKind::NotFound) => Right::NoSuchCommand,
        Err(_) => Right::Denied,
    }
}
