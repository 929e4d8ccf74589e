//! Accepts connections, at most so many, and ends those that are slow.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::Request;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

/// Bytes of a request's head.
const HEAD: usize = 64 * 1024;
/// Open files beside the browsers' connections: those of the servers, and the program's own.
const OTHER_FILES: u64 = 100;
/// After an error, such as no more open files, the next accept waits so long.
const REST: Duration = Duration::from_millis(100);

/// Serves until the program ends. A client has `patience` for the head of each request, and for each part of a reply
/// that it takes.
pub async fn serve(listener: TcpListener, router: Router, connections: usize, patience: Duration) {
    let open = Arc::new(Open::new(connections));
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let place = open.admit(peer).await;
                tokio::spawn(connection(stream, place, router.clone(), patience));
            }
            Err(error) => {
                eprintln!("dq-dashboard: cannot accept a connection: {error}");
                open.close_one();
                sleep(REST).await;
            }
        }
    }
}

/// Sees to it that so many connections can be open, or returns how many can.
pub fn possible(connections: usize) -> usize {
    let files = rlimit::increase_nofile_limit(connections as u64 + OTHER_FILES).unwrap_or(u64::MAX);
    let possible = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    connections.min(possible).max(1)
}

async fn connection(stream: TcpStream, place: Arc<Place>, router: Router, patience: Duration) {
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(patience));
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(place.clone());
        let answered = router.clone().oneshot(request.map(Body::new));
        async { answered.await.map_err(|never: Infallible| never) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // An error is the client's: it went away, was slow or spoke no HTTP.
    tokio::select! {
        _ = serving => {}
        () = place.closing.notified() => {}
    }
}

/// A connection among those that are open. Dropping it leaves the place to another.
pub struct Place {
    pub peer: SocketAddr,
    number: u64,
    closing: Notify,
    open: Arc<Open>,
}

impl Place {
    /// Protects the connection from being closed for another one, until the guard is dropped. This is for users who
    /// are known: a stranger could hold all places.
    pub fn work(&self) -> Working<'_> {
        self.set(true);
        Working(self)
    }

    fn set(&self, is_working: bool) {
        if let Some(one) = self.open.all().known.get_mut(&self.number) {
            (one.is_working, one.since) = (is_working, Instant::now());
        }
        self.open.changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.all().known.remove(&self.number);
        self.open.changed.notify_one();
    }
}

pub struct Working<'a>(&'a Place);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

struct Open {
    most: usize,
    all: Mutex<All>,
    /// A place is free, or a connection does nothing more.
    changed: Notify,
}

#[derive(Default)]
struct All {
    last: u64,
    known: HashMap<u64, One>,
}

struct One {
    address: IpAddr,
    since: Instant,
    is_working: bool,
    place: std::sync::Weak<Place>,
}

impl Open {
    fn new(most: usize) -> Open {
        Open { most, all: Mutex::default(), changed: Notify::new() }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns a place for the connection; if there is none, another connection is closed for it. It waits only while
    /// all work.
    async fn admit(self: &Arc<Open>, peer: SocketAddr) -> Arc<Place> {
        loop {
            if self.all().known.len() < self.most || self.close_one() {
                return self.place(peer);
            }
            self.changed.notified().await;
        }
    }

    fn place(self: &Arc<Open>, peer: SocketAddr) -> Arc<Place> {
        let mut all = self.all();
        all.last += 1;
        let number = all.last;
        let place = Arc::new(Place { peer, number, closing: Notify::new(), open: self.clone() });
        let one = One { address: peer.ip(), since: Instant::now(), is_working: false, place: Arc::downgrade(&place) };
        all.known.insert(number, one);
        place
    }

    /// Closes the connection that has waited longest, of the address with the most of them: who opens many loses them
    /// first.
    fn close_one(&self) -> bool {
        let mut all = self.all();
        let mut count: HashMap<IpAddr, usize> = HashMap::new();
        all.known.values().for_each(|one| *count.entry(one.address).or_default() += 1);
        let idle = all.known.iter().filter(|(_, one)| !one.is_working);
        let Some(number) = idle
            .max_by_key(|(number, one)| (count[&one.address], std::cmp::Reverse((one.since, **number))))
            .map(|(number, _)| *number)
        else {
            return false;
        };
        let gone = all.known.remove(&number);
        drop(all);
        if let Some(place) = gone.and_then(|one| one.place.upgrade()) {
            place.closing.notify_one();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 5000).into()
    }

    #[tokio::test]
    async fn who_opens_many_loses_the_oldest_first() {
        let open = Arc::new(Open::new(4));
        let single = open.admit(from(1)).await;
        let mut many = Vec::new();
        for _ in 0..3 {
            many.push(open.admit(from(2)).await);
        }
        let is_open = |place: &Place| place.open.all().known.contains_key(&place.number);
        let first = many[0].clone();
        let working = first.work();
        many.push(open.admit(from(2)).await);
        let still: Vec<bool> = many.iter().map(|place| is_open(place)).collect();
        assert_eq!(still, [true, false, true, true], "one that works is left alone");
        assert!(is_open(&single));
        drop(working);
        many.push(open.admit(from(3)).await);
        let still: Vec<bool> = many.iter().map(|place| is_open(place)).collect();
        assert_eq!(still, [true, false, false, true, true], "it has just worked: another is older");
        many[1].closing.notified().await;
    }

    #[tokio::test]
    async fn a_new_one_waits_while_all_work() {
        let open = Arc::new(Open::new(1));
        let first = open.admit(from(1)).await;
        let working = first.work();
        let second = tokio::spawn({
            let open = open.clone();
            async move { open.admit(from(2)).await.peer }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(working);
        assert_eq!(second.await.expect("it is admitted"), from(2));
    }
}
