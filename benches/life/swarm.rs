//! Many connections in one thread, each with one command under way.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use crate::wire::{skip, Wire};

struct Member {
    wire: Wire,
    got: Vec<u8>,
    /// Whether the second command of a pair is under way.
    second: bool,
}

pub struct Swarm {
    epoll: i32,
    members: Vec<Member>,
    input: Vec<u8>,
}

impl Swarm {
    pub fn open(port: u16, count: usize) -> Swarm {
        // Safety: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0, "no epoll");
        let members: Vec<Member> =
            (0..count).map(|_| Member { wire: Wire::open(port), got: Vec::new(), second: false }).collect();
        for (i, member) in members.iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: i as u64 };
            // Safety: the event is live for the call, and both descriptors are open.
            let done =
                unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, member.wire.stream.as_raw_fd(), &mut event) };
            assert_eq!(done, 0, "the socket is not watched");
        }
        Swarm { epoll, members, input: vec![0; 65_536] }
    }

    fn send(&mut self, member: usize, bytes: &[u8]) {
        self.members[member].wire.stream.write_all(bytes).expect("the server reads");
    }

    /// Waits for whole replies; calls `next` with each and its member, until `left` have come.
    fn listen(&mut self, mut left: usize, mut next: impl FnMut(&mut Swarm, usize, &[u8])) {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; self.members.len()];
        while left > 0 {
            // Safety: there is room for as many events as are asked for.
            let ready = unsafe { libc::epoll_wait(self.epoll, events.as_mut_ptr(), events.len() as i32, 60_000) };
            assert!(ready > 0, "the server does not answer");
            for event in &events[..ready as usize] {
                let place = event.u64 as usize;
                let mut input = std::mem::take(&mut self.input);
                let count = self.members[place].wire.stream.read(&mut input).expect("the server answers");
                assert!(count > 0, "the server closed the connection");
                let member = &mut self.members[place];
                if member.got.is_empty() && skip(&input[..count], 0) == Some(count) {
                    left -= 1;
                    next(self, place, &input[..count]);
                } else {
                    member.got.extend_from_slice(&input[..count]);
                    if skip(&member.got, 0).is_some() {
                        let reply = std::mem::take(&mut member.got);
                        left -= 1;
                        next(self, place, &reply);
                    }
                }
                self.input = input;
            }
        }
    }

    /// Sends all `commands`, one at a time on each connection.
    pub fn run_each(&mut self, commands: &[Vec<u8>]) {
        let mut sent = self.members.len().min(commands.len());
        (0..sent).for_each(|i| self.send(i, &commands[i]));
        self.listen(commands.len(), |swarm, member, _| {
            if let Some(command) = commands.get(sent) {
                swarm.send(member, command);
                sent += 1;
            }
        });
    }

    /// `count` times in all, on each connection: sends `first`, and then what `second` makes of the reply.
    pub fn run_pairs(&mut self, count: usize, first: &[u8], second: &dyn Fn(&[u8]) -> Vec<u8>) {
        let mut begun = self.members.len().min(count);
        (0..begun).for_each(|i| self.send(i, first));
        self.members.iter_mut().for_each(|member| member.second = false);
        self.listen(count * 2, |swarm, member, reply| {
            if swarm.members[member].second {
                swarm.members[member].second = false;
                if begun < count {
                    begun += 1;
                    swarm.send(member, first);
                }
            } else {
                swarm.members[member].second = true;
                let command = second(reply);
                swarm.send(member, &command);
            }
        });
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        // Safety: opened by `open`, closed once.
        unsafe { libc::close(self.epoll) };
    }
}
