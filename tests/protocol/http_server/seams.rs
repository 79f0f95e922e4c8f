//! Streams that are cut, superseded and taken up again in whatever order: nothing is lost, and nothing comes twice.

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::Call;
use mcp_proto::{Change, Progress};
use mcp_tests::harness::{Rng, Web};

use super::{ECHO, answer, legacy, session, web};
use crate::common::ms;

/// What a client knows of a stream
#[derive(Debug, Default)]
struct Stream {
    /// The connection that it reads, and how many of its events it has read
    reads: Option<(ExchangeId, usize)>,
    /// The id of the last event that it has read, and the number in it
    last: Option<(String, u32)>,
    answers: usize,
    /// Its end was read
    over: bool,
    /// What follows is forgotten, and the server has said so
    lost: bool,
}

impl Stream {
    /// Reads what has come
    fn read(&mut self, web: &Web, context: &str) {
        let Some((x, read)) = &mut self.reads else { return };
        let reply = web.reply(*x);
        if reply.status == 0 {
            return;
        }
        assert_eq!(reply.status, 200, "{context}: {reply:?}");
        if !reply.is_stream() {
            self.answers += reply.messages().len();
            self.over = reply.finished;
            return;
        }
        for event in reply.events().into_iter().skip(*read) {
            *read += 1;
            if let Some((_, number)) = event.id.split_once('-') {
                let number: u32 = number.parse().expect("a number");
                if let Some((before, last)) = &self.last {
                    let follows = number == last + 1 || (event.data.is_empty() && number == *last);
                    assert!(follows, "{context}: {} comes behind {before}", event.id);
                } else {
                    assert!(number <= 1, "{context}: {} comes first", event.id);
                }
                self.last = Some((event.id, number));
            }
            self.answers += usize::from(event.data.contains("\"result\""));
        }
        self.over |= self.answers > 0;
    }
}

struct Talk {
    web: Web,
    id: String,
    calls: Vec<(Call, u32, bool, Stream)>,
    /// The stream of no call
    news: Stream,
    /// Connections that the client reads no more, with the number of events that had come then
    left: Vec<(ExchangeId, usize)>,
    /// The server keeps little
    forgets: bool,
}

impl Talk {
    /// Leaves a connection, by closing it or in silence
    fn leave(&mut self, which: Option<usize>, closes: bool) {
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.news,
        };
        let Some((x, read)) = stream.reads.take() else { return };
        if closes {
            self.web.hang_up(x);
        }
        self.left.push((x, read));
    }

    /// Takes a stream up where it was left
    fn resume(&mut self, which: Option<usize>) {
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.news,
        };
        let Some((last, _)) = stream.last.clone().filter(|_| !stream.lost) else { return };
        // Where there may be nothing to go on from, who asks closes what he has.
        self.leave(which, self.forgets);
        self.web.pulls |= self.forgets;
        let x = self.web.send("GET", "/mcp", &[("Mcp-Session-Id", &self.id), ("Last-Event-ID", &last)], "");
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.news,
        };
        if self.forgets && self.web.reply(x).status == 400 {
            stream.lost = true;
        } else {
            stream.reads = Some((x, 0));
        }
    }

    fn read(&mut self, context: &str) {
        for (_, _, _, stream) in &mut self.calls {
            stream.read(&self.web, context);
        }
        self.news.read(&self.web, context);
        for (x, read) in &self.left {
            assert_eq!(self.web.reply(*x).events().len(), *read, "{context}: it came where nobody reads");
        }
    }
}

// covers: SSE-014, SSE-022, SSE-023, HTTP-055, HTTP-060
#[test]
fn however_streams_are_cut_each_message_comes_once() {
    let mut lost = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let forgets = seed % 4 == 0;
        let mut web = web(Config::new().replay_bytes(if forgets { 1_000 } else { 1 << 20 }));
        let id = session(&mut web, "2025-11-25");
        let (calls, news, left) = (Vec::new(), Stream::default(), Vec::new());
        let mut talk = Talk { web, id, calls, news, left, forgets };
        for step in 0..60 {
            let context = format!("seed {seed}, step {step}");
            // What is made is not always taken.
            talk.web.pulls = rng.chance(70);
            let which = match talk.calls.len() {
                0 => None,
                n => Some(rng.below(n)).filter(|_| rng.chance(80)),
            };
            match (rng.below(10), which) {
                (0, _) if talk.calls.len() < 4 => {
                    talk.web.pulls = true;
                    let n = u32::try_from(talk.calls.len()).expect("few") + 2;
                    let message =
                        legacy(n, "tools/call", &format!("{ECHO},\"_meta\":{{\"progressToken\":{n}}}"));
                    let x = talk.web.post(&[("Mcp-Session-Id", &talk.id)], &message);
                    let call = talk.web.call();
                    // So that it is a stream with something to come back with.
                    talk.web
                        .server
                        .engine()
                        .progress(talk.web.now, call.id(), Progress::new(1.0))
                        .expect("open");
                    talk.web.pull();
                    let stream = Stream { reads: Some((x, 0)), ..Stream::default() };
                    talk.calls.push((call, 1, true, stream));
                }
                (1..=3, Some(n)) if talk.calls[n].2 => {
                    talk.web.advance(ms(100));
                    let (call, told, ..) = &mut talk.calls[n];
                    *told += 1;
                    let told = Progress::new(f64::from(*told));
                    talk.web.server.engine().progress(talk.web.now, call.id(), told).expect("open");
                    talk.web.pull();
                }
                (4, Some(n)) if talk.calls[n].2 => {
                    talk.calls[n].2 = false;
                    answer(&mut talk.web, &talk.calls[n].0);
                }
                (5, which) => talk.leave(which, true),
                (6 | 7, which) => talk.resume(which),
                (8, Some(n)) if talk.calls[n].2 => {
                    let call = talk.calls[n].0.id();
                    talk.web.server.poll_later(talk.web.now, call, None);
                    talk.web.pull();
                }
                (9, _) if talk.news.reads.is_none() && talk.news.last.is_none() => {
                    talk.web.pulls = true;
                    let x = talk.web.send("GET", "/mcp", &[("Mcp-Session-Id", &talk.id)], "");
                    talk.news.reads = Some((x, 0));
                }
                _ => {
                    talk.web.server.engine().publish(talk.web.now, &Change::Tools);
                    talk.web.pull();
                }
            }
            if rng.chance(30) {
                // Made, and not taken.
                while talk.web.server.poll_ready(talk.web.now).is_some() {}
            } else if rng.chance(50) {
                talk.web.pulls = true;
                talk.web.pull();
            }
            talk.read(&context);
        }
        let context = format!("seed {seed}, at the end");
        talk.web.pulls = true;
        for n in 0..talk.calls.len() {
            if talk.calls[n].2 {
                answer(&mut talk.web, &talk.calls[n].0);
            }
            talk.read(&context);
            if !talk.calls[n].3.over {
                talk.resume(Some(n));
                talk.read(&context);
            }
            let stream = &talk.calls[n].3;
            lost += u32::from(stream.lost);
            if !stream.lost {
                assert_eq!((stream.answers, stream.over), (1, true), "{context}: {n}");
            }
        }
        // Nothing is left of it.
        (0..talk.calls.len()).map(Some).chain([None]).for_each(|which| talk.leave(which, true));
        talk.left.iter().for_each(|(x, _)| talk.web.server.handle_gone(talk.web.now, *x));
        talk.web.send("DELETE", "/mcp", &[("Mcp-Session-Id", &talk.id)], "");
        let server = &mut talk.web.server;
        assert_eq!(
            (server.exchanges(), server.sessions(), server.engine().live_calls()),
            (0, 0, 0),
            "{context}"
        );
        talk.web.advance(ms(10_000));
        assert_eq!(talk.web.server.poll_timeout(), None, "{context}");
    }
    assert!(lost > 10, "too much was kept");
}
