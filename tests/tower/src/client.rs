//! A client over the HTTP client of hyper: the exchange level with an HTTP implementation of the application's choice.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use mcp_proto::client::{self, Event};
use mcp_proto::http::client::{Action, Client, Config, ExchangeFailure, ExchangeId, OutgoingRequest};
use mcp_proto::{Instant, head::ResponseHead};
use tokio::{sync::mpsc, task::AbortHandle, time};

/// A connection to a server. Make calls on its [`client`](Self::client), and await their outcomes by
/// [`next`](Self::next).
pub struct Connection {
    pub client: Client,
    begun: time::Instant,
    http: Http<HttpConnector, Full<Bytes>>,
    sender: mpsc::UnboundedSender<(ExchangeId, Report)>,
    reports: mpsc::UnboundedReceiver<(ExchangeId, Report)>,
    tasks: BTreeMap<ExchangeId, AbortHandle>,
}

enum Report {
    Head(http::response::Parts),
    Body(Bytes),
    End(Result<(), ExchangeFailure>),
}

impl Connection {
    pub fn new(url: &str, config: client::Config) -> io::Result<Self> {
        let http = Http::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let url = Config::new(url).map_err(io::Error::other)?;
        let client = Client::new(Arc::new(config), Arc::new(url), Instant::ZERO);
        let (sender, reports) = mpsc::unbounded_channel();
        Ok(Self { client, begun: time::Instant::now(), http, sender, reports, tasks: BTreeMap::new() })
    }

    pub fn now(&self) -> Instant {
        Instant::from_micros(self.begun.elapsed().as_micros() as u64)
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Event {
        loop {
            let now = self.now();
            if let Some(event) = self.client.poll_event(now) {
                return event;
            }
            while let Some(action) = self.client.poll_exchange(now) {
                match action {
                    Action::Send(request) => {
                        let id = request.exchange;
                        let task = tokio::spawn(exchange(self.http.clone(), request, self.sender.clone()));
                        self.tasks.insert(id, task.abort_handle());
                    }
                    Action::Abort { exchange } => {
                        self.tasks.remove(&exchange).inspect(AbortHandle::abort);
                    }
                    _ => {}
                }
            }
            let due = self.client.poll_timeout().map(|at| at.saturating_duration_since(now));
            tokio::select! {
                Some((id, report)) = self.reports.recv() => self.handle_report(id, report),
                () = time::sleep(due.unwrap_or(Duration::MAX)) => self.client.handle_timeout(self.now()),
            }
        }
    }

    fn handle_report(&mut self, id: ExchangeId, report: Report) {
        let now = self.now();
        match report {
            Report::Head(head) => {
                let fields: Vec<_> = head.headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
                let head = ResponseHead { status: head.status.as_u16(), fields: &fields };
                self.client.handle_head(now, id, &head);
            }
            Report::Body(piece) => self.client.handle_body(now, id, &piece),
            Report::End(outcome) => {
                self.tasks.remove(&id);
                match outcome {
                    Ok(()) => self.client.handle_end(now, id),
                    Err(failure) => self.client.handle_failure(now, id, failure),
                }
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.values().for_each(AbortHandle::abort);
    }
}

/// Performs an exchange and reports its parts.
async fn exchange(
    http: Http<HttpConnector, Full<Bytes>>,
    request: OutgoingRequest,
    reports: mpsc::UnboundedSender<(ExchangeId, Report)>,
) {
    let report = |report| _ = reports.send((request.exchange, report));
    let mut builder = http::Request::builder().method(request.method).uri(format!(
        "{}{}",
        request.url.origin(),
        request.url.target()
    ));
    for (name, value) in request.fields.iter() {
        builder = builder.header(name, value);
    }
    let sent = builder.body(Full::new(request.body.clone())).expect("the fields are valid");
    let outcome = async {
        let response = http.request(sent).await.map_err(|error| {
            let reason = error.to_string();
            if error.is_connect() {
                ExchangeFailure::unsent(reason)
            } else {
                ExchangeFailure::interrupted(reason)
            }
        })?;
        let (head, mut body) = response.into_parts();
        report(Report::Head(head));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ExchangeFailure::interrupted(error.to_string()))?;
            frame.into_data().into_iter().for_each(|piece| report(Report::Body(piece)));
        }
        Ok(())
    };
    report(Report::End(outcome.await));
}
