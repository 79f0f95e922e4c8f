//! Both bindings on sockets: `tokio` on one thread, frames by `tokio-tungstenite`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use mcp_proto::{Instant, client as client_engine, server as server_engine};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, accept_async_with_config, client_async_with_config};

use crate::client::Client;
use crate::server::{Server, ViolatedProtocol};

/// Handles the events of the server; a call may be answered immediately or later.
pub type EventHandler = Box<dyn FnMut(&mut server_engine::Engine, Instant, server_engine::Event)>;

/// A timer is looked at again after this time, since other events may have moved it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
struct Clock(std::time::Instant);

impl Clock {
    fn now(self) -> Instant {
        Instant::from_micros(u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX))
    }
}

/// WebSocket messages are bounded as frames of a byte stream are.
fn socket_config(max_frame: usize) -> WebSocketConfig {
    // Number and space precede the message.
    let max = max_frame.saturating_add(16);
    WebSocketConfig::default().max_message_size(Some(max)).max_frame_size(Some(max))
}

struct Shared {
    server: RefCell<Server>,
    handle: RefCell<EventHandler>,
    clock: Clock,
    /// Wakes the connections: there may be frames to send.
    changed: Notify,
}

impl Shared {
    /// Handles the events and wakes the connections.
    fn settle(&self) {
        let (server, handle, now) =
            (&mut *self.server.borrow_mut(), &mut *self.handle.borrow_mut(), self.clock.now());
        while let Some(event) = server.engine().poll_event(now) {
            handle(server.engine(), now, event);
        }
        self.changed.notify_waiters();
    }
}

/// Serves all connections until the future is dropped. It must run on a `LocalSet`.
pub async fn serve(
    listener: TcpListener,
    engine: server_engine::Engine,
    handle: EventHandler,
) -> std::io::Result<()> {
    let shared = Rc::new(Shared {
        server: RefCell::new(Server::new(engine)),
        handle: RefCell::new(handle),
        clock: Clock(std::time::Instant::now()),
        changed: Notify::new(),
    });
    let timers = Rc::clone(&shared);
    tokio::task::spawn_local(async move {
        loop {
            let now = timers.clock.now();
            let wait = {
                let server = &mut *timers.server.borrow_mut();
                server.engine().handle_timeout(now);
                server.engine().poll_timeout().map(|at| at.saturating_duration_since(now))
            };
            timers.settle();
            tokio::time::sleep(wait.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)).await;
        }
    });
    loop {
        let (stream, _) = listener.accept().await?;
        let shared = Rc::clone(&shared);
        // A client that disconnects is no error of the server.
        tokio::task::spawn_local(async move { drop(serve_one(&shared, stream).await) });
    }
}

async fn serve_one(shared: &Shared, stream: TcpStream) -> Result<(), Error> {
    let max_frame = shared.server.borrow_mut().engine().config().effective_limits().max_frame;
    let mut socket = accept_async_with_config(stream, Some(socket_config(max_frame))).await?;
    let id = shared.server.borrow_mut().accept(shared.clock.now());
    let result = async {
        loop {
            loop {
                let frame = shared.server.borrow_mut().poll_frame(shared.clock.now(), id);
                let Some(frame) = frame else { break };
                socket.send(Message::text(frame)).await?;
            }
            if shared.server.borrow().is_closed(id) {
                return socket.close(None).await;
            }
            let is_stalled = shared.server.borrow().is_stalled(id);
            tokio::select! {
                message = socket.next(), if !is_stalled => match message {
                    Some(Ok(Message::Text(text))) => {
                        let taken = shared.server.borrow_mut().handle_frame(shared.clock.now(), id, &text);
                        if let Err(ViolatedProtocol(_)) = taken {
                            return socket.close(None).await;
                        }
                        shared.settle();
                    }
                    Some(Ok(Message::Binary(_))) => return socket.close(None).await,
                    // The library answers pings.
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
                () = shared.changed.notified() => {}
            }
        }
    };
    let result = result.await;
    shared.server.borrow_mut().close(shared.clock.now(), id);
    shared.settle();
    result
}

/// A client on a socket.
pub struct ClientSocket {
    socket: WebSocketStream<TcpStream>,
    client: Client,
    clock: Clock,
}

impl ClientSocket {
    /// Connects, and begins the negotiation.
    pub async fn connect(stream: TcpStream, config: client_engine::Config) -> Result<Self, Error> {
        let max_frame = config.effective_limits().max_frame;
        let host = stream.peer_addr().map_err(Error::Io)?;
        let (socket, _) =
            client_async_with_config(format!("ws://{host}/"), stream, Some(socket_config(max_frame))).await?;
        let clock = Clock(std::time::Instant::now());
        Ok(Self { socket, client: Client::new(config.into(), clock.now()), clock })
    }

    /// Returns the engine and the time, for commands. They are sent by [`event`](Self::event).
    pub fn engine(&mut self) -> (&mut client_engine::Engine, Instant) {
        (self.client.engine(), self.clock.now())
    }

    /// Sends what is to be sent, and waits for the next event. `None` after the connection has ended.
    pub async fn event(&mut self) -> Option<client_engine::Event> {
        loop {
            let now = self.clock.now();
            self.client.engine().handle_timeout(now);
            while let Some(frame) = self.client.poll_frame() {
                if self.socket.send(Message::text(frame)).await.is_err() {
                    self.client.handle_close(now);
                    break;
                }
            }
            if let Some(event) = self.client.engine().poll_event(now) {
                return Some(event);
            }
            if self.client.is_closed() {
                return None;
            }
            let wait = self.client.engine().poll_timeout().map(|at| at.saturating_duration_since(now));
            let next = tokio::time::timeout(wait.unwrap_or(POLL_INTERVAL), self.socket.next());
            let now = self.clock.now();
            match next.await {
                Err(_) => {}
                Ok(Some(Ok(Message::Text(text)))) => self.client.handle_frame(now, &text),
                Ok(Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None) => {
                    self.client.handle_close(now)
                }
                Ok(Some(Ok(_))) => {}
            }
        }
    }
}
