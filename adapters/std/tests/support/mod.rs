//! Shared helpers: temporary folders, deadlines, pumping in both directions, and reading the process table.

#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test program uses a part of it")]

use core::time::Duration;
use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_std::io::{Duplex, Interest};

#[path = "../../src/folder_in_tests.rs"]
mod folder_in_tests;

pub(crate) use folder_in_tests::Folder;

/// Longest time of a test; generous, as test machines are slow and shared.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Runs `f` on a thread and fails if it does not return in time.
pub fn with_deadline<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || drop(tx.send(f())));
    match rx.recv_timeout(DEADLINE) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no result within {DEADLINE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!(),
        },
    }
}

/// Polls `condition` until it holds, and fails at the deadline.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Writes `total` patterned bytes and the end, while it reads patterned bytes up to their end; returns the number of
/// bytes read.
pub fn pump(io: &mut impl Duplex, total: usize) -> usize {
    let (mut sent, mut received) = (0, 0);
    let mut ended = false;
    let mut buf = vec![0; 64 * 1024];
    let pattern: Vec<u8> = (0..PATTERN * 2).map(|i| (i % PATTERN) as u8).collect();
    loop {
        let interest = Interest { read: !ended, write: sent < total };
        if interest == Interest::default() {
            return received;
        }
        let ready = io.wait(interest, Some(DEADLINE)).unwrap();
        assert!(!ready.is_empty(), "no progress: {sent} sent, {received} received");
        if ready.writable {
            let offset = sent % PATTERN;
            let n = (total - sent).min(PATTERN);
            match io.write(&pattern[offset..offset + n]) {
                Ok(n) => sent += n,
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
            }
            if sent == total {
                io.shutdown_write().unwrap();
            }
        }
        if ready.readable {
            match io.read(&mut buf) {
                Ok(0) => ended = true,
                Ok(n) => {
                    let whole =
                        buf[..n].iter().enumerate().all(|(i, b)| *b == ((received + i) % PATTERN) as u8);
                    assert!(whole, "bytes lost or changed");
                    received += n;
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
            }
        }
    }
}

/// Length of the pattern; no power of two, so that no buffer size hides a mistake.
pub const PATTERN: usize = 251 * 251;

/// Reads until the end, or until `enough` returns true.
pub fn read_until(io: &mut impl Duplex, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), [0; 4096]);
    while !enough(&all) {
        assert!(!io.wait(Interest::READ, Some(DEADLINE)).unwrap().is_empty(), "no bytes within the deadline");
        match io.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buf[..n]),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
        }
    }
    all
}

/// Returns the running processes of group `pgid`, without zombies of other parents, from `/proc`.
#[cfg(target_os = "linux")]
pub fn group_members(pgid: u32) -> Vec<u32> {
    let me = std::process::id();
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // "pid (name) state ppid pgrp …"; the name may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let (state, parent, group) = (fields[0], fields[1], fields[2]);
        let zombie = state == "Z" || state == "X";
        if group == pgid.to_string() && (!zombie || parent == me.to_string()) {
            members.push(pid);
        }
    }
    members
}

/// Fails unless the group becomes empty in time.
#[cfg(target_os = "linux")]
pub fn assert_no_group(pgid: u32) {
    // A killed process of another parent may take a moment to leave the table.
    eventually("group empty", || group_members(pgid).is_empty());
}
