//! Pushes one webhook, and prints the id of its job: producer URL BODY [DELAY [ID]]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use dq_webhooks::{backoff, env, Link};
use redis::{Cmd, RedisError, RedisResult};

/// An ID stays taken for 5 minutes (dq.id-keep). Later than that, the same push could make a second job.
const PATIENCE: Duration = Duration::from_secs(240);

/// Sends again until there is an answer: with an ID of its own, a job that is pushed twice is one job.
async fn push(link: &Link, push: &Cmd) -> RedisResult<String> {
    let start = Instant::now();
    let mut tries = 0;
    loop {
        match link.ask(push).await {
            Ok(id) => return Ok(redis::from_redis_value(id)?),
            Err(error) if !passes(&error) || start.elapsed() > PATIENCE => return Err(error),
            Err(error) => eprintln!("again in a moment: {error}"),
        }
        tokio::time::sleep(backoff(tries)).await;
        tries += 1;
    }
}

/// Whether the same push may be taken a moment later: there was no answer, a failover goes on, there is no room, the
/// module is being exchanged.
fn passes(error: &RedisError) -> bool {
    let unknown = error.detail().is_some_and(|text| text.starts_with("unknown command"));
    let waits = ["READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "MISCONF", "DQFULL", "OOM"];
    error.code().is_none_or(|code| waits.contains(&code) || unknown)
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, body, more @ ..] = &args[..] else {
        eprintln!("usage: producer URL BODY [DELAY [ID]]");
        return ExitCode::from(2);
    };
    let delay = more.first().map_or("0", String::as_str);
    // Made before the first try: whoever calls this again after a crash passes an id of his own.
    let id = more.get(1).cloned().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let payload = serde_json::json!({ "kind": "webhook", "url": url, "body": body }).to_string();
    let mut command = redis::cmd("DQ.PUSH");
    command.arg(env("DQ_QUEUE", "webhooks".to_string())).arg(payload).arg("ID").arg(id).arg("DELAY").arg(delay);
    let pushed = match Link::new(Duration::from_secs(5)) {
        Ok(link) => push(&link, &command).await,
        Err(error) => Err(error),
    };
    match pushed {
        Ok(id) => println!("{id}"),
        Err(error) => {
            eprintln!("not pushed: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
