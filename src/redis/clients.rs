//! Clients that would meet a command of the module after it is gone.
//!
//! A server does not tell its clients that a command went: Redis 8 takes the command of a client's last call again
//! without looking it up, and EXEC runs what was queued by its address, in every server. Both end the server.

use super::Ctx;

impl Ctx {
    /// Ends the connections of those clients, before the module goes: they connect again and go on.
    pub fn end_clients_that_hold(&self, prefix: &str) {
        for id in holders(&self.client_list(), prefix) {
            self.kill_client(id);
        }
    }
}

/// The ids, in the text of CLIENT LIST, of clients whose last command begins with `prefix`, or who have commands queued
/// in MULTI. A client that is at its EXEC is the one that unloads.
fn holders<'a>(list: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    list.lines().filter_map(move |line| {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        let command = field("cmd=")?;
        let queues = command != "exec" && field("multi=")?.parse::<i64>().is_ok_and(|queued| queued > 0);
        (command.starts_with(prefix) || queues).then_some(field("id=")?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_used_the_module_last_or_have_commands_queued() {
        let list = "id=3 addr=127.0.0.1:1 name=cmd=dq. flags=N multi=-1 cmd=dq.claim user=default\n\
                    id=4 addr=127.0.0.1:2 name= flags=x multi=2 cmd=get user=default\n\
                    id=5 addr=127.0.0.1:3 name= flags=N multi=-1 cmd=module|unload user=default\n\
                    id=6 addr=127.0.0.1:4 name= flags=x multi=3 cmd=exec user=default\n\
                    id=7 addr=127.0.0.1:5 name= flags=x multi=0 cmd=multi user=default\n\
                    id=8 addr=127.0.0.1:6 name= flags=N multi=-1 cmd=NULL user=default\n";
        assert_eq!(holders(list, "dq.").collect::<Vec<_>>(), ["3", "4"]);
        assert_eq!(holders("", "dq.").count(), 0);
    }
}
