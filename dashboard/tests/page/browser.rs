//! A Chromium without a window, driven by its debugging protocol, and pages in it.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::{mpsc, Mutex, OnceLock};
use std::time::Duration;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::{json, Value};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

use crate::common::server::{mortal, new_dir};
use crate::common::wait_until;

/// How long the browser may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection to the browser, or to a page.
struct Wire {
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    number: u64,
    /// Errors of scripts and broken rules that the page told of.
    complaints: Vec<String>,
}

impl Wire {
    fn open(address: &str) -> Wire {
        let (mut socket, _) = tungstenite::connect(address).unwrap_or_else(|e| panic!("{address}: {e}"));
        if let MaybeTlsStream::Plain(stream) = socket.get_mut() {
            stream.set_read_timeout(Some(PATIENCE)).expect("the time-out is set");
        }
        Wire { socket, number: 0, complaints: Vec::new() }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let call = json!({ "id": self.number, "method": method, "params": params });
        self.socket.send(Message::text(call.to_string())).unwrap_or_else(|e| panic!("{method}: {e}"));
        loop {
            let message = self.socket.read().unwrap_or_else(|e| panic!("{method}: {e}"));
            let Ok(told) = serde_json::from_str::<Value>(message.to_text().unwrap_or_default()) else { continue };
            if told["id"] == json!(self.number) {
                assert!(told["error"].is_null(), "{method}: {}", told["error"]);
                return told["result"].clone();
            }
            self.hear(&told);
        }
    }

    fn hear(&mut self, told: &Value) {
        let params = &told["params"];
        match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" && params["entry"]["source"] != "network" => {
                self.complaints.push(params["entry"]["text"].to_string());
            }
            _ => {}
        }
    }
}

/// The browser of this test program; it ends with the program.
fn browser() -> &'static Mutex<Wire> {
    static BROWSER: OnceLock<Mutex<Wire>> = OnceLock::new();
    BROWSER.get_or_init(|| Mutex::new(Wire::open(&start())))
}

/// Starts Chromium, and gives the address that it listens on.
fn start() -> String {
    let (told, hear) = mpsc::channel();
    // The browser ends with the thread that started it: this one lives as long as the program.
    std::thread::spawn(move || {
        let dir = new_dir();
        let program = std::env::var("DQ_CHROMIUM").unwrap_or("chromium".to_string());
        let mut child = mortal(&program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--hide-scrollbars", "--disable-extensions", "--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--force-device-scale-factor=1", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", dir.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{program} does not start: {e}; apt-get install chromium"));
        let lines = BufReader::new(child.stderr.take().expect("it has an error output")).lines();
        for line in lines.map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("DevTools listening on ") {
                let _ = told.send(address.to_string());
            }
        }
        let _ = child.wait();
        std::thread::park();
    });
    hear.recv_timeout(PATIENCE).expect("chromium tells where it listens")
}

fn ask_browser(method: &str, params: Value) -> Value {
    browser().lock().unwrap_or_else(|e| e.into_inner()).call(method, params)
}

/// A page with cookies and storage of its own. Dropping it closes it, and fails the test where a script failed or the
/// page broke its own rules.
pub struct Page {
    wire: Wire,
    target: String,
    context: String,
    pub base: String,
}

impl Page {
    /// Opens the dashboard at `base`.
    pub fn open(base: &str) -> Page {
        let context = ask_browser("Target.createBrowserContext", json!({}));
        let context = context["browserContextId"].as_str().expect("a context").to_string();
        let target = ask_browser("Target.createTarget", json!({ "url": "about:blank", "browserContextId": context }));
        let target = target["targetId"].as_str().expect("a target").to_string();
        let port = address_port();
        let wire = Wire::open(&format!("ws://127.0.0.1:{port}/devtools/page/{target}"));
        let mut page = Page { wire, target, context, base: base.to_string() };
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.size(1440, 900);
        page.go("");
        page
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.wire.call(method, params)
    }

    /// Goes to a part of the dashboard: `#/q/mail`.
    pub fn go(&mut self, part: &str) {
        let url = format!("{}{part}", self.base);
        self.call("Page.navigate", json!({ "url": url }));
        self.wait("document.readyState === 'complete'");
    }

    /// The value of an expression.
    pub fn eval(&mut self, script: &str) -> Value {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let told = self.call("Runtime.evaluate", params);
        assert!(told["exceptionDetails"].is_null(), "{script}: {}", told["exceptionDetails"]);
        told["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, condition: &str) {
        let what = format!("the page to say yes to {condition}");
        wait_until(&what, || {
            let params = json!({ "expression": format!("Boolean({condition})"), "returnByValue": true });
            let told = self.call("Runtime.evaluate", params);
            (told["result"]["value"] == json!(true)).then_some(())
        });
    }

    /// Waits until the text of the page, or of the part that the selector names, has this in it.
    pub fn sees(&mut self, selector: &str, text: &str) {
        let text = json!(text);
        self.wait(&format!(
            "document.querySelector({}) && document.querySelector({}).innerText.includes({text})",
            json!(selector),
            json!(selector)
        ));
    }

    pub fn text(&mut self, selector: &str) -> String {
        let script = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        self.eval(&script).as_str().unwrap_or_default().to_string()
    }

    /// Clicks what the selector names, as soon as it is there.
    pub fn click(&mut self, selector: &str) {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        self.eval(&format!("document.querySelector({}).click()", json!(selector)));
    }

    /// Clicks the button or link with this text.
    pub fn press(&mut self, text: &str) {
        let find = format!(
            "[...document.querySelectorAll('button, a, summary')].find(e => e.innerText.trim() === {} && e.offsetParent && !e.disabled)",
            json!(text)
        );
        self.wait(&find);
        self.eval(&format!("{find}.click()"));
    }

    /// Writes into a field, as a person does.
    pub fn fill(&mut self, selector: &str, text: &str) {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        self.eval(&format!("(e => {{ e.focus(); e.select?.(); }})(document.querySelector({}))", json!(selector)));
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// A key of the keyboard, by its name: `Tab`, `Enter`, `j`.
    pub fn key(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            one if one.chars().count() == 1 => one,
            _ => "",
        };
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            _ => 0,
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            down["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", down);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }));
    }

    pub fn size(&mut self, width: u32, height: u32) {
        let phone = width < 600;
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    pub fn dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] }),
        );
    }

    /// A picture of what is in view.
    pub fn picture(&mut self, path: &Path) {
        let told = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = BASE64_STANDARD.decode(told["data"].as_str().expect("a picture")).expect("it is base 64");
        std::fs::write(path, bytes).expect("the picture is written");
    }

    /// How far the page can be scrolled sideways.
    pub fn overhang(&mut self) -> i64 {
        self.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            .as_i64()
            .expect("pixels")
    }

    /// What went wrong in the page so far.
    pub fn complaints(&mut self) -> Vec<String> {
        self.eval("0");
        std::mem::take(&mut self.wire.complaints)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let params =
                json!({ "expression": "location.hash + '\\n' + document.body.innerText", "returnByValue": true });
            let told = self.wire.call("Runtime.evaluate", params);
            eprintln!(
                "--- the page\n{}\n{:?}\n---",
                told["result"]["value"].as_str().unwrap_or_default(),
                self.wire.complaints
            );
        } else {
            let complaints = self.complaints();
            assert!(complaints.is_empty(), "the page complains: {complaints:?}");
        }
        ask_browser("Target.closeTarget", json!({ "targetId": self.target }));
        ask_browser("Target.disposeBrowserContext", json!({ "browserContextId": self.context }));
    }
}

fn address_port() -> u16 {
    let mut wire = browser().lock().unwrap_or_else(|e| e.into_inner());
    match wire.socket.get_mut() {
        MaybeTlsStream::Plain(stream) => stream.peer_addr().expect("it is connected").port(),
        _ => unreachable!("the browser speaks plainly"),
    }
}
