//! `dq-dashboard`: a page in the browser that shows the queues of a Redis, a Sentinel or a cluster with DQ, and what can
//! be done about them.

mod actions;
mod address;
mod assets;
mod attention;
mod budget;
mod cache;
mod client;
mod dead;
mod discovery;
mod due;
mod errors;
mod guard;
mod history;
mod jobs;
mod journal;
mod link;
mod listen;
mod node;
mod options;
mod pages;
mod payload;
mod query;
mod reply;
mod sample;
mod sampler;
mod server;
mod shapes;
mod stats;
mod target;
mod tls;
mod tries;
mod trouble;
mod viewers;
mod visible;
mod web;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

use crate::client::Proxies;
use crate::guard::Guard;
use crate::journal::Journal;
use crate::link::Link;
use crate::options::Options;
use crate::pages::Pages;
use crate::sampler::{Sampler, Shared};
use crate::target::Target;
use crate::web::{router, App};

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    match serve(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("dq-dashboard: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), String> {
    let password = options.page_password()?;
    if password.is_none() && !options.listen.ip().is_loopback() {
        return Err(format!(
            "{} can be reached from other machines, so it needs a password: give --password-file FILE or \
             DQ_DASHBOARD_PASSWORD, or listen on 127.0.0.1",
            options.listen.ip()
        ));
    }
    let target = Target::of(&options)?;
    let name = target.name.clone();
    let (link, shared) = (Arc::new(Link::new(target)), Arc::new(Shared::new()));
    let listener = TcpListener::bind(options.listen).await.map_err(|e| format!("{}: {e}", options.listen))?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let dead = shared.dead.clone();
    tokio::spawn(Sampler::new(link.clone(), shared.clone()).run());
    let guard = Guard::new(password, &options.host, address.port()).secure(options.secure_cookies);
    let app = App {
        shared,
        pages: Pages::new(link, dead),
        guard,
        may_act: options.allow_actions,
        proxies: Proxies::new(options.trusted_proxy, options.forwarding, options.user_header),
        journal: Journal::new(),
        client_timeout: Duration::from_secs(options.client_timeout),
        request_timeout: Duration::from_secs(options.request_timeout),
    };
    let (asked, patience) = (options.max_connections as usize, app.client_timeout);
    let connections = listen::possible(asked);
    if connections < asked {
        eprintln!("dq-dashboard: at most {connections} connections instead of {asked}: raise the limit of open files");
    }
    println!(
        "dq-dashboard: http://{address}/ shows {name}{}",
        if options.allow_actions { ", and may act" } else { "" }
    );
    tokio::select! {
        () = listen::serve(listener, router(app), connections, patience) => Ok(()),
        () = told_to_end() => Ok(()),
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn told_to_end() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
