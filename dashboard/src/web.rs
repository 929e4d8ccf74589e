//! What a browser asks for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{to_bytes, Body, Bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{json, Value};
use tokio::time::timeout;
use tower_http::compression::predicate::{DefaultPredicate, Predicate, SizeAbove};
use tower_http::compression::CompressionLayer;
use tower_http::CompressionLevel;

use crate::actions::{self, Action};
use crate::assets::{self, POLICY};
use crate::client::{Client, Proxies};
use crate::guard::{Guard, Known as Seen};
use crate::journal::Journal;
use crate::listen::Place;
use crate::pages::Pages;
use crate::query::Query;
use crate::sample::{Row, Sample, Sort};
use crate::sampler::Shared;
use crate::trouble::{Kind, Trouble};
use crate::visible::line;

/// Bytes of a question: a thousand ids of 128 letters.
const BODY: usize = 256 * 1024;
/// Bytes of what a stranger may send.
const LOGIN: usize = 4 * 1024;
/// Answers of fewer bytes are not worth compressing: they fit into one packet.
const SMALL: u64 = 1024;
/// Queues of one answer; the page says how many there are, and finds the others by their names.
const ROWS: usize = 200;

pub struct App {
    pub shared: Arc<Shared>,
    pub pages: Pages,
    pub guard: Guard,
    pub may_act: bool,
    pub proxies: Proxies,
    pub journal: Journal,
    /// How long a client may take to send a body.
    pub client_timeout: Duration,
    /// How long an answer may take.
    pub request_timeout: Duration,
}

/// Characters of an action in the log: the whole shape of a group of dead letters.
const LOGGED: usize = 500;

/// How long a page waits for one reply.
const PATIENCE: Duration = Duration::from_secs(4);

type Known = State<Arc<App>>;

pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    // Text of others is not compressed: who can push jobs and sees the size of answers could guess what else is in them.
    let plain = Router::new()
        .route("/api/queue", get(queue))
        .route("/api/counts", get(counts))
        .route("/api/errors", get(errors))
        .route("/api/jobs", get(jobs))
        .route("/api/newest", get(newest))
        .route("/api/groups", get(groups))
        .route("/api/job", get(job))
        .route("/api/payload", get(payload))
        .route("/api/settings", get(settings))
        .route("/api/act", post(act));
    let figures = Router::new()
        .route("/api/live", get(live))
        .route("/api/history", get(history))
        .route("/api/due", get(due))
        .layer(compression());
    let inside = plain.merge(figures).route_layer(from_fn_with_state(app.clone(), only_known));
    let files = Router::new()
        .route("/", get(|| async { assets::file("index.html") }))
        .route("/static/{name}", get(|Path(name): Path<String>| async move { assets::file(&name) }))
        .layer(compression());
    Router::new()
        .route("/api/session", get(session))
        .route("/api/login", post(log_in))
        .route("/api/logout", post(log_out))
        .route_layer(from_fn_with_state(app.clone(), small_body))
        .merge(files)
        .merge(inside)
        .layer(from_fn_with_state(app.clone(), only_here))
        .with_state(app)
}

fn compression() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(DefaultPredicate::new().and(SizeAbove::new(SMALL)))
}

/// Refuses foreign names, and what changes something unless the page itself asks; tells the browser to be strict.
async fn only_here(
    State(app): Known,
    Extension(place): Extension<Arc<Place>>,
    mut request: Request,
    next: Next,
) -> Response {
    let client = app.proxies.client(place.peer, request.headers());
    let refused = |why: &str| {
        let (method, path) = (request.method(), line(request.uri().path().as_bytes(), 80));
        app.journal.refused("request refused", &client, &format!("request=\"{method} {path}\" reason={why:?}"));
    };
    let mut response = if !app.guard.is_host(request.headers()) {
        refused("the host is not known: --host allows one");
        let text = "This page is not known by that name. Start dq-dashboard with --host NAME to allow it.\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    } else if request.method() == "POST" && !app.guard.is_own(request.headers()) {
        refused("it does not come from the page itself");
        (StatusCode::FORBIDDEN, "Only the page itself may do that.\n").into_response()
    } else {
        // Another site must not learn from the size of what a browser loads for it.
        let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
        if !matches!(site, None | Some(b"same-origin" | b"none")) {
            request.headers_mut().remove(header::ACCEPT_ENCODING);
        }
        request.extensions_mut().insert(client);
        timeout(app.request_timeout, next.run(request)).await.unwrap_or_else(|_| too_slow(app.request_timeout))
    };
    let headers = response.headers_mut();
    let strict = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in strict {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn too_slow(limit: Duration) -> Response {
    let what = format!("There was no answer within {} seconds", limit.as_secs());
    let advice = "An action goes on, and its result comes into the log of dq-dashboard.";
    let trouble = Trouble::new(Kind::Unreachable, what, &[advice]);
    (StatusCode::GATEWAY_TIMEOUT, Json(json!({ "trouble": trouble }))).into_response()
}

async fn only_known(
    State(app): Known,
    Extension(client): Extension<Client>,
    Extension(place): Extension<Arc<Place>>,
    request: Request,
    next: Next,
) -> Response {
    let seen = app.guard.knows(&client, request.headers()).await;
    if let Some(refusal) = not_seen(&app, &client, seen) {
        if request.method() == "POST" {
            app.journal.refused("action refused", &client, "reason=\"not signed in\"");
        }
        return refusal;
    }
    let _working = place.work();
    with_body(request, BODY, app.client_timeout, next).await
}

/// The answer to somebody who is not known; a wrong password is logged.
fn not_seen(app: &App, client: &Client, seen: Seen) -> Option<Response> {
    match seen {
        Seen::Yes => return None,
        Seen::No => {}
        Seen::WrongPassword => app.journal.refused("sign-in failed", client, "reason=\"wrong password\""),
        Seen::TooMany => {
            app.journal.refused("sign-in failed", client, "reason=\"too many tries wait\"");
            let what = "Too many tries to sign in come from your address";
            let trouble = Trouble::new(Kind::Busy, what, &["Try again in some seconds."]);
            let told = Json(json!({ "trouble": trouble }));
            return Some((StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "10")], told).into_response());
        }
    }
    Some((StatusCode::UNAUTHORIZED, Json(json!({ "login": true }))).into_response())
}

async fn small_body(State(app): Known, request: Request, next: Next) -> Response {
    with_body(request, LOGIN, app.client_timeout, next).await
}

/// Reads the body before anything is done, for at most so long.
async fn with_body(request: Request, most: usize, patience: Duration, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match timeout(patience, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, [(header::CONNECTION, "close")]).into_response(),
    }
}

/// Tells nothing about the servers and this program to strangers.
async fn session(State(app): Known, Extension(client): Extension<Client>, headers: HeaderMap) -> Response {
    let seen = app.guard.knows(&client, &headers).await;
    match (seen, not_seen(&app, &client, seen)) {
        (Seen::TooMany, Some(refusal)) => refusal,
        (Seen::Yes, _) => Json(json!({
            "known": true,
            "password": app.guard.has_password(),
            "may_act": app.may_act,
            "target": app.pages.link.target.name,
            "version": env!("CARGO_PKG_VERSION"),
        }))
        .into_response(),
        _ => Json(json!({ "known": false, "password": true })).into_response(),
    }
}

async fn log_in(State(app): Known, Extension(client): Extension<Client>, Json(given): Json<Value>) -> Response {
    let (seen, cookie) = app.guard.log_in(&client, given["password"].as_str().unwrap_or_default()).await;
    match (not_seen(&app, &client, seen), cookie) {
        (None, Some(cookie)) => {
            app.journal.done("signed in", &client, "");
            ([(header::SET_COOKIE, cookie)], Json(json!({ "known": true }))).into_response()
        }
        (Some(refusal), _) if seen == Seen::TooMany => refusal,
        _ => (StatusCode::FORBIDDEN, Json(json!({ "known": false }))).into_response(),
    }
}

async fn log_out(State(app): Known, Extension(client): Extension<Client>, headers: HeaderMap) -> Response {
    ([(header::SET_COOKIE, app.guard.log_out(&client, &headers))], Json(json!({ "known": false }))).into_response()
}

/// All queues, or those whose name has the text, in the order that is asked for.
async fn live(State(app): Known, query: Query) -> Response {
    app.shared.viewers.note(None);
    let sample = app.shared.sample();
    let wanted = query.text("match").to_lowercase();
    let sorted = sample.sorted(Sort::of(&query.text("sort")));
    let matching: Vec<&Row> =
        sorted.filter(|row| wanted.is_empty() || row.name.to_lowercase().contains(&wanted)).collect();
    let mut answer = frame(&sample);
    answer["totals"] = json!(sample.totals);
    answer["matching"] = json!(matching.len());
    answer["rows"] = json!(matching.into_iter().take(ROWS).collect::<Vec<_>>());
    Json(answer).into_response()
}

/// What each answer of a live page begins with.
fn frame(sample: &Sample) -> Value {
    let trouble = sample.trouble.as_ref().map(|(trouble, since)| {
        let mut told = json!(trouble);
        told["for_ms"] = json!(crate::sample::now_ms().saturating_sub(*since));
        told
    });
    let age_ms = crate::sample::now_ms().saturating_sub(sample.at);
    json!({
        "number": sample.number, "age_ms": age_ms, "now": now_of(sample), "trouble": trouble, "servers": sample.servers,
    })
}

/// Queue time in ms, by the first server.
fn now_of(sample: &Sample) -> i64 {
    crate::sample::now_ms() as i64 + ahead(sample)
}

fn ahead(sample: &Sample) -> i64 {
    sample.servers.first().map_or(0, |server| server.ahead_ms)
}

async fn queue(State(app): Known, query: Query) -> Response {
    let name = query.bytes("queue");
    app.shared.viewers.note(Some(&name));
    let sample = app.shared.sample();
    let mut answer = frame(&sample);
    answer["row"] = json!(sample.row(&name));
    answer["name"] = json!(line(&name, 200));
    if let Some((stats, at)) = sample.stats.get(&name) {
        answer["stats"] = json!(stats.all());
        answer["stats_age_ms"] = json!(crate::sample::now_ms().saturating_sub(*at));
    }
    Json(answer).into_response()
}

async fn counts(State(app): Known, query: Query) -> Response {
    patiently(async move { app.pages.counts(&query.bytes("queue")).await.map(Arc::new) }).await
}

async fn history(State(app): Known, query: Query) -> Response {
    let history = app.shared.history.lock().unwrap_or_else(|e| e.into_inner());
    let (name, now) = (query.bytes("queue"), (crate::sample::now_ms() / 1000) as u32);
    let seconds = query.text("seconds").parse().unwrap_or(600);
    let queue = (!name.is_empty()).then_some(name.as_slice());
    Json(history.read(queue, query.text("fine") != "0", now, seconds)).into_response()
}

async fn due(State(app): Known, query: Query) -> Response {
    let name = query.bytes("queue");
    let due = app.shared.due.lock().unwrap_or_else(|e| e.into_inner());
    let bars = if name.is_empty() { due.sum(due.bars.keys()) } else { due.sum([&name].into_iter()) };
    let counted = if name.is_empty() { due.bars.len() } else { usize::from(due.bars.contains_key(&name)) };
    Json(json!({ "edges": crate::due::EDGES, "due": bars, "counted": counted })).into_response()
}

/// Why jobs fail, in one queue or in all.
async fn errors(State(app): Known, query: Query) -> Response {
    let name = query.bytes("queue");
    let only = (!name.is_empty()).then_some(name.as_slice());
    app.shared.viewers.note(only);
    let sample = app.shared.sample();
    let shown = app.shared.errors.lock().unwrap_or_else(|e| e.into_inner()).show(only, now_of(&sample));
    let dead = sample.rows.iter().filter(|row| only.is_none_or(|only| only == row.raw)).map(|row| row.counts.dead);
    let mut answer = frame(&sample);
    answer["errors"] = json!(shown);
    answer["dead_queues"] = json!(dead.clone().filter(|dead| *dead > 0).count());
    answer["dead"] = json!(dead.sum::<i64>());
    Json(answer).into_response()
}

async fn jobs(State(app): Known, query: Query) -> Response {
    let state = query.text("state");
    if !["ready", "delayed", "leased", "dead"].contains(&state.as_str()) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let after = match query.text("from").parse() {
        Ok(ms) => crate::jobs::cursor_at(ms),
        Err(_) => query.bytes("after"),
    };
    patiently(async move { app.pages.jobs(&query.bytes("queue"), &state, &after).await }).await
}

async fn newest(State(app): Known, query: Query) -> Response {
    let ahead = ahead(&app.shared.sample());
    patiently(async move { app.pages.newest_dead(&query.bytes("queue"), ahead).await }).await
}

async fn groups(State(app): Known, query: Query) -> Response {
    let name = query.bytes("queue");
    let dead = app.shared.sample().row(&name).map_or(0, |row| row.counts.dead);
    let dead = usize::try_from(dead).unwrap_or(0);
    patiently(async move { app.pages.groups(&name, dead).await }).await
}

async fn job(State(app): Known, query: Query) -> Response {
    patiently(async move { app.pages.job(&query.bytes("queue"), &query.bytes("id")).await }).await
}

async fn settings(State(app): Known, query: Query) -> Response {
    patiently(async move { app.pages.settings(&query.bytes("queue")).await }).await
}

/// The bytes of a payload, as a file that no browser opens by itself.
async fn payload(State(app): Known, query: Query) -> Response {
    let name = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"payload.bin\""),
    ];
    match app.pages.payload(&query.bytes("queue"), &query.bytes("id")).await {
        Ok(Some(bytes)) => (name, bytes).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(trouble) => refusal(&trouble),
    }
}

async fn act(State(app): Known, Extension(client): Extension<Client>, query: Query, body: Bytes) -> Response {
    let name = query.bytes("queue");
    let what = format!("queue={:?} request={}", line(&name, 80), line(&body, LOGGED));
    let refused = |trouble: Trouble| {
        app.journal.refused("action refused", &client, &format!("{what} reason={:?}", trouble.what));
        refusal(&trouble)
    };
    if !app.may_act {
        let advice = "Start dq-dashboard with --allow-actions to allow it.";
        return refused(Trouble::new(Kind::Permission, "This page was started without leave to act", &[advice]));
    }
    let action: Action = match serde_json::from_slice(&body) {
        Ok(action) => action,
        Err(e) => {
            return refused(Trouble::new(Kind::Refused, format!("The page asked for what is not known: {e}"), &[]))
        }
    };
    // A browser that goes away, or the limit of time, must not end it halfway and without a line in the log.
    let work = tokio::spawn(async move {
        let done = actions::run(&app.pages, &name, &action).await;
        app.shared.viewers.nudge();
        match &done {
            Ok(done) => app.journal.done("action", &client, &format!("{what} result={done:?}")),
            Err(trouble) => {
                let told =
                    format!("{what} error={:?}", line(format!("{}: {}", trouble.what, trouble.detail).as_bytes(), 300));
                app.journal.done("action failed", &client, &told);
            }
        }
        done
    });
    match work.await {
        Ok(Ok(done)) => Json(json!({ "done": done })).into_response(),
        Ok(Err(trouble)) => refusal(&trouble),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Replies with what is read, or, if that takes long, that it is under way. The page then asks again and is given it: it
/// takes this program for gone if a reply takes longer than 5 s, and reading that has to wait for its turn may.
async fn patiently<T, R>(read: R) -> Response
where
    T: Serialize + Send + Sync + 'static,
    R: Future<Output = Result<Arc<T>, Trouble>> + Send + 'static,
{
    match tokio::time::timeout(PATIENCE, tokio::spawn(read)).await {
        Ok(Ok(read)) => answer(read),
        Ok(Err(_)) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(_) => {
            let trouble =
                Trouble::new(Kind::Busy, "Waiting for the server", &["It is asked only a few times a second."]);
            ([(header::RETRY_AFTER, "0")], refusal(&trouble)).into_response()
        }
    }
}

fn answer<T: Serialize>(read: Result<Arc<T>, Trouble>) -> Response {
    match read {
        Ok(value) => Json(&*value).into_response(),
        Err(trouble) => refusal(&trouble),
    }
}

fn refusal(trouble: &Trouble) -> Response {
    let status = match trouble.kind {
        Kind::Busy => StatusCode::TOO_MANY_REQUESTS,
        Kind::Changed => StatusCode::CONFLICT,
        Kind::Permission => StatusCode::FORBIDDEN,
        Kind::Refused => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "trouble": trouble }))).into_response()
}
