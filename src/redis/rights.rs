//! Who may do what, by the server's ACL.
//!
//! A command that another module calls by RedisModule_Call has no user, unless that module says so, and on most servers
//! RedisModule_GetCurrentUserName reads through a null pointer then. So the name is asked for in here only, and only of
//! clients that have one.

use super::text::Text;
use super::{api, Ctx};
use redis_module::raw;
use std::ffi::CString;
use std::io;
use std::ptr::{null, NonNull};

/// The name of a user of the server's ACL, to be looked up again when its rights are needed.
pub struct User(Text);

/// The user that a name stands for at this moment.
struct Resolved(NonNull<raw::RedisModuleUser>);

impl User {
    fn resolve(&self) -> Option<Resolved> {
        // SAFETY: the name is live.
        let user = unsafe { api!(RedisModule_GetModuleUserFromUserName(self.0.raw())) };
        NonNull::new(user).map(Resolved)
    }
}

impl Resolved {
    /// Whether the user was turned off by ACL SETUSER. Redis before 7.0.6 does not tell.
    fn is_off(&self) -> bool {
        // SAFETY: the user is live; the string that comes back is the caller's.
        unsafe {
            let rules = raw::RedisModule_GetModuleUserACLString.map(|rules| Text::owned(rules(self.0.as_ptr())));
            rules.is_some_and(|rules| rules.as_bytes().starts_with(b"off"))
        }
    }
}

impl Drop for Resolved {
    fn drop(&mut self) {
        // SAFETY: freed once, here; the server's own user stays.
        unsafe { api!(RedisModule_FreeModuleUser(self.0.as_ptr())) };
    }
}

/// What a dry run of a command comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DryRun {
    Allowed,
    /// Nobody's rights count: a module called without a user.
    NoUser,
    Denied,
    /// The server would refuse the command for another reason.
    Refused,
    /// Redis before 7.2 has no dry runs.
    Unknown,
}

impl Ctx {
    /// The user of the client that called, which can wait. `call` is a command that it may run: another one could be denied,
    /// which would be in ACL LOG. `None` if nobody's rights count, or if the user is no user of
    /// the ACL, as those are not that other modules make: such a one cannot be looked up again.
    pub fn user(&self, call: &[Text]) -> Option<User> {
        // Asked first: where there is no user, most servers read through a null pointer for its name. Redis 7.0 has no dry
        // runs, and there a call of a module cannot wait. The id tells nothing: a module's client can have somebody's.
        if self.dry_run(call) == DryRun::NoUser {
            return None;
        }
        // SAFETY: the context is that of a client with a user; the name that comes back is ours.
        let user = User(unsafe { Text::owned(api!(RedisModule_GetCurrentUserName(self.raw()))) });
        user.resolve().map(|_| user)
    }

    /// Whether a user may run a command, its name first, in the database that is selected. What is denied is in ACL LOG.
    pub fn user_may(&self, user: &User, call: &[Text]) -> bool {
        let Some(user) = user.resolve() else { return false };
        if user.is_off() {
            return false;
        }
        let mut argv: Vec<_> = call.iter().map(Text::raw).collect();
        // SAFETY: user and strings are live.
        let may = unsafe {
            api!(RedisModule_ACLCheckCommandPermissions(user.0.as_ptr(), argv.as_mut_ptr(), argv.len() as i32))
        };
        // Valkey 9.1 denies by this function whatever a user calls who has not all databases. The dry run tells, and it
        // makes an entry in ACL LOG.
        may == raw::REDISMODULE_OK as i32 || self.dry_run_as(&user, call) == DryRun::Allowed
    }

    fn dry_run_as(&self, user: &Resolved, call: &[Text]) -> DryRun {
        // SAFETY: context and user are live, and the context has the user no longer than that.
        unsafe {
            let Some(set_user) = raw::RedisModule_SetContextUser else { return DryRun::Unknown };
            set_user(self.raw(), user.0.as_ptr());
            let outcome = self.dry_run(call);
            set_user(self.raw(), null());
            outcome
        }
    }

    /// Has the server look whether it would run a command as the user of this context.
    fn dry_run(&self, call: &[Text]) -> DryRun {
        let [name, args @ ..] = call else { return DryRun::Refused };
        let Ok(name) = CString::new(name.as_bytes()) else { return DryRun::Refused };
        // SAFETY: the name ends with NUL; `v` takes a vector of live strings and its length. C: as the user, D: only look.
        let (reply, error) = unsafe {
            let reply = api!(RedisModule_Call(self.raw(), name.as_ptr(), c"CDv".as_ptr(), args.as_ptr(), args.len()));
            (reply, io::Error::last_os_error().raw_os_error().unwrap_or(0))
        };
        if reply.is_null() {
            return if error == libc::EBADF { DryRun::Unknown } else { DryRun::Allowed };
        }
        // SAFETY: the reply is live, and freed once. Nobody looks into it: on Valkey 9.1 one comes that is none.
        unsafe { api!(RedisModule_FreeCallReply(reply)) };
        match error {
            0 => DryRun::Allowed,
            libc::ENOTSUP => DryRun::NoUser,
            libc::EACCES => DryRun::Denied,
            _ => DryRun::Refused,
        }
    }
}

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
