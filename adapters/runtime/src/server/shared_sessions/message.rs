//! Messages between processes that share sessions.
//!
//! A message is a version, a kind, the number of its process, and its parts. Numbers have four bytes, high ones first; a length
//! precedes each part but the last.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use mcp_proto::Change;
use mcp_proto::http::server::SessionId;
use mcp_proto::server::Announcement;

use crate::server::server_loop::ChangeSet;

const VERSION: u8 = 1;

/// A message to the other processes.
#[derive(Debug)]
pub(super) enum Message {
    /// A session has changed: its record has this version.
    Changed(SessionId, u64),
    /// A session has ended.
    Ended(SessionId),
    /// The client of a session has sent this, for which nothing waits in the sending process.
    Relay(SessionId, Vec<u8>),
    /// A session has a GET stream in the sending process from now on. Its client has received the event with this id, if any.
    StreamOpened(SessionId, String),
    /// A message for the client of a session, which the process with this number sends.
    ForStream(SessionId, u32, Vec<u8>),
    /// The client of a session resumes the stream of a call after the event with this id, which is in the process with the
    /// first number. The second one names the request in the sending process.
    Resume(SessionId, u32, u32, String),
    /// Bytes of such a stream, for this request. The number is that of the part, from 0 on.
    Stream(RelayName, u32, StreamPart, Vec<u8>),
    /// This request, in the sending process, has ended, or does not need the stream any more.
    StopStream(RelayName),
    /// Lists or resources have changed.
    Changes(ChangeSet),
}

/// A request that resumes a stream of another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RelayName {
    pub(super) id: SessionId,
    /// The process that has the request.
    pub(super) process: u32,
    /// The number of the request there.
    pub(super) request: u32,
}

/// A part of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamPart {
    More,
    Last,
    /// The stream is unknown: its call is lost.
    Unknown,
    /// The call is there, and the event is not kept any more.
    EventIsGone,
}

impl Message {
    /// Returns the message for changes that are for everyone; `None` if there are none.
    pub(super) fn of_changes(changes: &ChangeSet) -> Option<Self> {
        let mut for_everyone =
            if changes.includes_all_resources() { ChangeSet::all_resources() } else { ChangeSet::default() };
        for announcement in changes.iter().filter(|announcement| announcement.audience().is_everyone()) {
            if kind_of(announcement.change()).is_some() {
                for_everyone.merge(&ChangeSet::from(announcement));
            }
        }
        (for_everyone != ChangeSet::default()).then_some(Self::Changes(for_everyone))
    }

    pub(super) fn write(&self, process: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let kind = match self {
            Self::Changed(..) => 1,
            Self::Ended(_) => 2,
            Self::Relay(..) => 3,
            Self::StreamOpened(..) => 4,
            Self::ForStream(..) => 5,
            Self::Changes(_) => 6,
            Self::Resume(..) => 7,
            Self::Stream(..) => 8,
            Self::StopStream(..) => 9,
        };
        out.extend([VERSION, kind]);
        out.extend(process.to_be_bytes());
        match self {
            Self::Changed(id, version) => {
                put(&mut out, id.reveal().as_bytes());
                out.extend(version.to_be_bytes());
            }
            Self::Ended(id) => put(&mut out, id.reveal().as_bytes()),
            Self::StreamOpened(id, after) => {
                put(&mut out, id.reveal().as_bytes());
                out.extend_from_slice(after.as_bytes());
            }
            Self::Resume(id, to, request, after) => {
                put(&mut out, id.reveal().as_bytes());
                out.extend(to.to_be_bytes());
                out.extend(request.to_be_bytes());
                out.extend_from_slice(after.as_bytes());
            }
            Self::Stream(name, number, part, bytes) => {
                put_name(&mut out, name);
                out.extend(number.to_be_bytes());
                out.push(match part {
                    StreamPart::More => 0,
                    StreamPart::Last => 1,
                    StreamPart::Unknown => 2,
                    StreamPart::EventIsGone => 3,
                });
                out.extend_from_slice(bytes);
            }
            Self::StopStream(name) => put_name(&mut out, name),
            Self::Relay(id, message) => {
                put(&mut out, id.reveal().as_bytes());
                out.extend_from_slice(message);
            }
            Self::ForStream(id, to, message) => {
                put(&mut out, id.reveal().as_bytes());
                out.extend(to.to_be_bytes());
                out.extend_from_slice(message);
            }
            Self::Changes(changes) => {
                out.push(u8::from(changes.includes_all_resources()));
                for announcement in changes.iter() {
                    let change = announcement.change();
                    out.extend(kind_of(change));
                    let uri = if let Change::Resource(uri) = change { uri.as_bytes() } else { b"" };
                    put(&mut out, uri);
                }
            }
        }
        out
    }

    /// Returns the number of the sending process and the message; `None` for what a later release sends.
    pub(super) fn read(mut from: &[u8]) -> Option<(u32, Self)> {
        let from = &mut from;
        let [VERSION, kind] = *take::<2>(from)? else { return None };
        let process = number(from)?;
        let message = match kind {
            1 => Self::Changed(id(from)?, u64::from_be_bytes(*take(from)?)),
            2 => Self::Ended(id(from)?),
            3 => Self::Relay(id(from)?, rest(from)),
            4 => Self::StreamOpened(id(from)?, String::from_utf8(rest(from)).ok()?),
            5 => Self::ForStream(id(from)?, number(from)?, rest(from)),
            7 => {
                let (id, to, request) = (id(from)?, number(from)?, number(from)?);
                Self::Resume(id, to, request, String::from_utf8(rest(from)).ok()?)
            }
            8 => {
                let (name, count) = (relay_name(from)?, number(from)?);
                let part = match *take(from)? {
                    [0] => StreamPart::More,
                    [1] => StreamPart::Last,
                    [2] => StreamPart::Unknown,
                    [3] => StreamPart::EventIsGone,
                    _ => return None,
                };
                Self::Stream(name, count, part, rest(from))
            }
            9 => Self::StopStream(relay_name(from)?),
            6 => {
                let [all_resources] = *take(from)?;
                let mut changes =
                    if all_resources == 1 { ChangeSet::all_resources() } else { ChangeSet::default() };
                while let Some([kind]) = take(from) {
                    let uri = core::str::from_utf8(part(from)?).ok()?;
                    changes.merge(&ChangeSet::from(Announcement::new(change(*kind, uri)?)));
                }
                Self::Changes(changes)
            }
            _ => return None,
        };
        from.is_empty().then_some((process, message))
    }
}

/// Returns the kind of a change; `None` for a list of an extension, whose name is a text of the program.
fn kind_of(change: &Change) -> Option<u8> {
    match change {
        Change::Tools => Some(1),
        Change::Prompts => Some(2),
        Change::Resources => Some(3),
        Change::Resource(_) => Some(4),
        _ => None,
    }
}

fn change(kind: u8, uri: &str) -> Option<Change> {
    Some(match kind {
        1 => Change::Tools,
        2 => Change::Prompts,
        3 => Change::Resources,
        4 => Change::Resource(uri.to_owned()),
        _ => return None,
    })
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend((part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

fn take<'a, const N: usize>(from: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let taken;
    (taken, *from) = from.split_first_chunk()?;
    Some(taken)
}

fn number(from: &mut &[u8]) -> Option<u32> {
    take(from).map(|bytes| u32::from_be_bytes(*bytes))
}

fn part<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_be_bytes(*take(from)?);
    let taken;
    (taken, *from) = from.split_at_checked(usize::try_from(length).ok()?)?;
    Some(taken)
}

fn id(from: &mut &[u8]) -> Option<SessionId> {
    SessionId::new(core::str::from_utf8(part(from)?).ok()?)
}

fn put_name(out: &mut Vec<u8>, name: &RelayName) {
    put(out, name.id.reveal().as_bytes());
    out.extend(name.process.to_be_bytes());
    out.extend(name.request.to_be_bytes());
}

fn relay_name(from: &mut &[u8]) -> Option<RelayName> {
    Some(RelayName { id: id(from)?, process: number(from)?, request: number(from)? })
}

fn rest(from: &mut &[u8]) -> Vec<u8> {
    core::mem::take(from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::server::Audience;

    #[test]
    fn message_is_read_as_it_was_written_and_a_part_of_it_is_none() {
        let id = || SessionId::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("an id");
        let name = || RelayName { id: id(), process: 3, request: 4 };
        let mut changes = ChangeSet::all_resources();
        changes.merge(&Change::Tools.into());
        let mut some = ChangeSet::from(Change::Resource("a:1".into()));
        some.merge(&Change::Prompts.into());
        for message in [
            Message::Changed(id(), 1 << 40),
            Message::Ended(id()),
            Message::Relay(id(), b"{}".to_vec()),
            Message::StreamOpened(id(), String::new()),
            Message::StreamOpened(id(), "7-1".into()),
            Message::Resume(id(), 3, 4, "7-1-Mg".into()),
            Message::Stream(name(), 0, StreamPart::More, b"data: x".to_vec()),
            Message::Stream(name(), 1, StreamPart::Last, Vec::new()),
            Message::Stream(name(), 2, StreamPart::Unknown, Vec::new()),
            Message::Stream(name(), 0, StreamPart::EventIsGone, Vec::new()),
            Message::StopStream(name()),
            Message::ForStream(id(), 7, b"{}".to_vec()),
            Message::Changes(changes),
            Message::Changes(some),
        ] {
            let written = message.write(70_000);
            let (process, read) = Message::read(&written).expect("a message");
            assert_eq!((process, alloc::format!("{read:?}")), (70_000, alloc::format!("{message:?}")));
            for end in 0..7 {
                assert!(Message::read(&written[..end]).is_none(), "{message:?} cut after {end}");
            }
        }
        assert!(
            Message::read(&[2, 1, 0, 0, 0, 0]).is_none() && Message::read(&[1, 99, 0, 0, 0, 0]).is_none()
        );
    }

    #[test]
    fn changes_for_some_stay_in_their_process() {
        let mut changes = ChangeSet::from(Announcement::new(Change::Tools).to(Audience::matching(|_| true)));
        assert!(Message::of_changes(&changes).is_none());
        changes.merge(&Change::Prompts.into());
        let Some(Message::Changes(published)) = Message::of_changes(&changes) else { panic!("none") };
        assert_eq!(published, ChangeSet::from(Change::Prompts));
    }
}
