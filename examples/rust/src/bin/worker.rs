//! Delivers webhooks from a queue of DQ. README.md says how to start it; lib.rs is the worker, this is its handler.

use std::time::{Duration, SystemTime};

use dq_webhooks::{env, Failure, Worker};
use reqwest::{header, redirect, Client, StatusCode};
use serde_json::Value;
use tokio::signal::unix::{signal, SignalKind};

/// No receiver puts us off for longer. Keep it below dq.max-delay.
const MOST_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Where the lease is lost, or the worker has no more time, this future is dropped at its `await`.
async fn handle(client: Client, payload: Vec<u8>, id: String) -> Result<(), Failure> {
    let job: Value = serde_json::from_slice(&payload)
        .map_err(|error| Failure::permanent(format!("the payload is not JSON: {error}")))?;
    match field(&job, "kind")? {
        "webhook" => deliver(&client, field(&job, "url")?, field(&job, "body")?, &id).await,
        kind => Err(Failure::unknown_kind(kind)),
    }
}

fn field<'a>(job: &'a Value, name: &str) -> Result<&'a str, Failure> {
    job.get(name).and_then(Value::as_str).ok_or_else(|| Failure::permanent(format!("the payload has no text {name:?}")))
}

/// POSTs one webhook. It can come twice: the receiver knows it again by the job's id.
async fn deliver(client: &Client, url: &str, body: &str, id: &str) -> Result<(), Failure> {
    let web = url.starts_with("http://") || url.starts_with("https://");
    let url = reqwest::Url::parse(url)
        .ok()
        .filter(|_| web)
        .ok_or_else(|| Failure::permanent(format!("not a web address: {url}")))?;
    let request = client.post(url.clone()).header("Idempotency-Key", id);
    let response = request
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.to_string())
        .send()
        .await
        .map_err(|error| Failure::temporary(format!("{error:?}"), None))?;
    let status = response.status();
    let text = format!("{url} answered {}", status.as_u16());
    if status.is_success() {
        Ok(())
    } else if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        Err(Failure::temporary(text, retry_after(response.headers())))
    } else {
        Err(Failure::permanent(text))
    }
}

/// Seconds, or a date.
fn retry_after(headers: &header::HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default(),
    };
    Some(wait.min(MOST_RETRY_AFTER))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).init();
    let client = Client::builder()
        .timeout(Duration::from_secs(env("DQ_HTTP_TIMEOUT_S", 10)))
        .redirect(redirect::Policy::none()) // It would follow with a GET, which delivers nothing.
        .build()?;
    let worker = Worker::new(
        env("DQ_QUEUE", "webhooks".to_string()),
        move |payload, id| handle(client.clone(), payload, id),
        env("DQ_HANDS", 4),
        Duration::from_millis(env("DQ_LEASE_MS", 30_000)),
        Duration::from_secs(env("DQ_GRACE_S", 20)),
    )?;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    worker
        .run(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        })
        .await;
    Ok(())
}
