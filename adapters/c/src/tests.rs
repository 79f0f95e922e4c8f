//! A client and a server that talk to each other, used by the functions that C uses.

use core::ptr;
use core::slice::from_raw_parts;

use crate::event::mcp_event_kind::*;
use crate::status::mcp_status::*;
use crate::*;

fn text(text: &str) -> mcp_slice {
    mcp_slice { data: text.as_ptr().cast(), len: text.len() }
}

fn read(slice: mcp_slice) -> String {
    // SAFETY: the slices of these tests are read before the next function on their handle.
    String::from_utf8(unsafe { slice.bytes() }.expect("a slice of the library").to_vec()).expect("UTF-8")
}

fn config(revisions: &str, flags: u32, entropy: &[u8; 32]) -> mcp_config {
    mcp_config {
        size: size_of::<mcp_config>(),
        name: text("pair"),
        version: text("1.0"),
        capabilities: text(r#"{"tools":{},"resources":{"subscribe":true}}"#),
        instructions: text(""),
        revisions: text(revisions),
        entropy: entropy.as_ptr(),
        nonce: 1,
        unix_time: 1_785_578_400,
        max_message: 0,
        ping_interval: 0,
        ping_misses: 0,
        flags,
    }
}

/// Two connected handles.
struct Pair {
    client: *mut mcp_client,
    server: *mut mcp_server,
}

impl Pair {
    fn new(revisions: &str) -> Self {
        Self::with_flags(revisions, MCP_TASKS)
    }

    fn with_flags(revisions: &str, flags: u32) -> Self {
        let entropy: [u8; 32] = core::array::from_fn(|i| u8::try_from(i).expect("small"));
        let mut config = config(revisions, flags, &entropy);
        let (mut client, mut server) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all pointers are to local variables.
        unsafe {
            assert_eq!(mcp_server_new(&raw const config, 0, &raw mut server), MCP_OK);
            config.capabilities = text(r#"{"elicitation":{}}"#);
            assert_eq!(mcp_client_new(&raw const config, 0, &raw mut client), MCP_OK);
        }
        Self { client, server }
    }

    /// Carries all output to the other side. Returns whether there was any.
    fn carry(&self) -> bool {
        let mut carried = false;
        let mut out = mcp_slice::EMPTY;
        // SAFETY: the handles are alive, and `out` is read before the next function on its handle.
        unsafe {
            while mcp_client_transmit(self.client, &raw mut out) == MCP_OK {
                // Copied: the server may be slow, and the client must not wait for it.
                let bytes = from_raw_parts(out.data.cast::<u8>(), out.len).to_vec();
                assert_eq!(mcp_client_consume(self.client, out.len), MCP_OK);
                assert_eq!(mcp_server_handle_input(self.server, 1, bytes.as_ptr(), bytes.len()), MCP_OK);
                carried = true;
            }
            while mcp_server_transmit(self.server, &raw mut out) == MCP_OK {
                let bytes = from_raw_parts(out.data.cast::<u8>(), out.len).to_vec();
                assert_eq!(mcp_server_consume(self.server, out.len), MCP_OK);
                assert_eq!(mcp_client_handle_input(self.client, 1, bytes.as_ptr(), bytes.len()), MCP_OK);
                carried = true;
            }
        }
        carried
    }

    /// Lets each side hear a line, and returns what they say: the server, and the client.
    fn say(&self, line: &str) -> [String; 2] {
        let (mut out, mut event) = (mcp_slice::EMPTY, mcp_event::new(MCP_EVENT_NONE));
        let mut said = [String::new(), String::new()];
        // SAFETY: the handles are alive, `event` is a local variable, and `out` is read before the next function on its handle.
        unsafe {
            // What has arrived is handled when events are asked for.
            while self.carry() {
                while mcp_server_poll_event(self.server, 1, &raw mut event) == MCP_OK {}
                while mcp_client_poll_event(self.client, 1, &raw mut event) == MCP_OK {}
            }
            assert_eq!(mcp_server_handle_input(self.server, 1, line.as_ptr(), line.len()), MCP_OK);
            assert_eq!(mcp_client_handle_input(self.client, 1, line.as_ptr(), line.len()), MCP_OK);
            while mcp_server_poll_event(self.server, 1, &raw mut event) == MCP_OK {}
            while mcp_client_poll_event(self.client, 1, &raw mut event) == MCP_OK {}
            if mcp_server_transmit(self.server, &raw mut out) == MCP_OK {
                said[0] = read(out);
            }
            if mcp_client_transmit(self.client, &raw mut out) == MCP_OK {
                said[1] = read(out);
            }
        }
        said
    }

    /// Runs both sides until the client has an event of a kind, and returns it.
    fn run(&self, kind: mcp_event_kind, mut serve: impl FnMut(*mut mcp_server, &mcp_event)) -> mcp_event {
        let mut event = mcp_event::new(MCP_EVENT_NONE);
        for _ in 0..1_000 {
            // SAFETY: the handles are alive, and `event` is a local variable.
            unsafe {
                while mcp_server_poll_event(self.server, 1, &raw mut event) == MCP_OK {
                    serve(self.server, &event);
                }
                while mcp_client_poll_event(self.client, 1, &raw mut event) == MCP_OK {
                    if event.kind == MCP_EVENT_INPUT {
                        let response = text(r#"{"action":"accept","content":{"name":"Ada"}}"#);
                        assert_eq!(mcp_client_answer(self.client, 1, event.id, response), MCP_OK);
                    }
                    if event.kind == kind {
                        return event;
                    }
                }
            }
            self.carry();
        }
        panic!("no event {kind:?}");
    }

    /// Calls a tool and returns its outcome.
    fn call(&self, name: &str, serve: impl FnMut(*mut mcp_server, &mcp_event)) -> (mcp_status, String) {
        let mut call = 0;
        // SAFETY: the handle is alive, and `call` is a local variable.
        unsafe {
            let made = mcp_client_call_tool(self.client, 1, text(name), text(""), ptr::null(), &raw mut call);
            assert_eq!(made, MCP_OK);
        }
        let done = self.run(MCP_EVENT_DONE, serve);
        assert_eq!(done.call, call);
        (done.status, read(done.json))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the handles are alive and not used again.
        unsafe {
            assert_eq!(mcp_client_free(self.client), MCP_OK);
            assert_eq!(mcp_server_free(self.server), MCP_OK);
        }
    }
}

fn for_each_era(test: impl Fn(&Pair)) {
    for revisions in ["2026-07-28", "2025-11-25"] {
        let pair = Pair::new(revisions);
        let ready = pair.run(MCP_EVENT_READY, |_, _| {});
        assert_eq!(read(ready.text), revisions);
        test(&pair);
    }
}

#[test]
fn call_is_answered() {
    for_each_era(|pair| {
        let (status, json) = pair.call("echo", |server, event| {
            if event.kind == MCP_EVENT_CALL {
                assert_eq!((read(event.method), read(event.name)), ("tools/call".into(), "echo".into()));
                // SAFETY: the handle is alive.
                unsafe {
                    // What an event points to stays while its call is answered.
                    assert_eq!(mcp_server_respond_text(server, 1, event.call, event.name, false), MCP_OK);
                    assert_eq!(
                        mcp_server_respond_text(server, 1, event.call, event.name, false),
                        MCP_ERROR_STALE
                    );
                }
                assert_eq!(read(event.name), "echo");
            }
        });
        assert_eq!(status, MCP_OK);
        assert!(json.contains(r#""text":"echo""#), "{json}");
        let (status, _) = pair.call("echo", |server, event| {
            // SAFETY: the handle is alive.
            let failed =
                unsafe { mcp_server_respond_error(server, 1, event.call, 7, text("no"), text(r#"{"a":1}"#)) };
            assert_eq!(failed, MCP_OK);
        });
        assert_eq!(status, MCP_ERROR_RPC);
    });
}

#[test]
fn structured_result_has_text_and_the_members_of_the_revision() {
    for (revisions, has_structure) in [("2026-07-28", true), ("2025-11-25", true), ("2025-03-26", false)] {
        let pair = Pair::new(revisions);
        pair.run(MCP_EVENT_READY, |_, _| {});
        let (status, json) = pair.call("add", |server, event| {
            if event.kind == MCP_EVENT_CALL {
                // SAFETY: the handle is alive.
                let status =
                    unsafe { mcp_server_respond_structured(server, 1, event.call, text(r#"{"sum":42}"#)) };
                assert_eq!(status, MCP_OK);
            }
        });
        assert_eq!(status, MCP_OK);
        assert!(json.contains(r#""text":"{\"sum\":42}""#), "{json}");
        assert_eq!(json.contains(r#""structuredContent":{"sum":42}"#), has_structure, "{revisions}: {json}");
    }
}

#[test]
fn state_and_answer_come_with_next_delivery() {
    for_each_era(|pair| {
        let (status, json) = pair.call("sign", |server, event| {
            if event.kind != MCP_EVENT_CALL {
                return;
            }
            let (mut kept, mut answer) = (mcp_slice::EMPTY, mcp_slice::EMPTY);
            // SAFETY: the handle is alive, and the places are local variables.
            unsafe {
                if event.attempt == 0 {
                    let form = r#"{"type":"object","properties":{"name":{"type":"string"}}}"#;
                    let asked = mcp_server_elicit(
                        server,
                        1,
                        event.call,
                        text("who"),
                        text("Who?"),
                        text(form),
                        text("state"),
                    );
                    assert_eq!(asked, MCP_OK);
                    return;
                }
                assert_eq!(mcp_server_call_state(server, event.call, &raw mut kept), MCP_OK);
                assert_eq!(read(kept), "state");
                assert_eq!(mcp_server_call_answer(server, event.call, text("who"), &raw mut answer), MCP_OK);
                let (mut name, mut decoded, mut length) = (mcp_slice::EMPTY, [0; 8], 0);
                let (place, capacity) = (decoded.as_mut_ptr(), decoded.len());
                let mut answer_string = |key, path, capacity| {
                    let (key, path) = (text(key), text(path));
                    mcp_server_answer_string(server, event.call, key, path, place, capacity, &raw mut length)
                };
                assert_eq!(answer_string("whom", "/content/name", capacity), MCP_DONE);
                assert_eq!(answer_string("who", "/content/age", capacity), MCP_DONE);
                assert_eq!(answer_string("who", "/content", capacity), MCP_ERROR_INVALID_VALUE);
                assert_eq!(answer_string("who", "/content/name", 3), MCP_ERROR_BUFFER_TOO_SMALL);
                assert_eq!(answer_string("who", "/content/name", capacity), MCP_OK);
                assert_eq!((length, core::ffi::CStr::from_ptr(place)), (3, c"Ada"));
                assert_eq!(mcp_json_get(answer, text("/content/name"), &raw mut name), MCP_OK);
                assert_eq!(mcp_server_respond_text(server, 1, event.call, name, false), MCP_OK);
            }
        });
        assert_eq!(status, MCP_OK);
        assert!(json.contains(r#""text":"\"Ada\"""#), "{json}");
    });
}

#[test]
fn change_reaches_subscriber() {
    for_each_era(|pair| {
        let mut subscription = 0;
        let filter = text(r#"{"resourceSubscriptions":["note://one"]}"#);
        // SAFETY: the handle is alive, and the place is a local variable.
        let status = unsafe { mcp_client_subscribe(pair.client, 1, filter, &raw mut subscription) };
        assert_eq!(status, MCP_OK);
        let acknowledged = pair.run(MCP_EVENT_SUBSCRIPTION_ACKNOWLEDGED, |_, event| {
            if event.kind == MCP_EVENT_SESSION_OPENED {
                return;
            }
            assert_eq!((event.kind, event.flags), (MCP_EVENT_RESOURCE_INTEREST, MCP_EVENT_SUBSCRIBED));
        });
        assert_eq!((acknowledged.id, read(acknowledged.json)), (subscription, read(filter)));
        // SAFETY: the handle is alive.
        let status = unsafe { mcp_server_publish(pair.server, 1, MCP_CHANGE_RESOURCE, text("note://one")) };
        assert_eq!(status, MCP_OK);
        let changed = pair.run(MCP_EVENT_CHANGED, |_, _| {});
        assert_eq!((changed.id, changed.code), (subscription, i64::from(MCP_CHANGE_RESOURCE)));
        assert_eq!(read(changed.text), "note://one");
    });
}

#[test]
fn structure_of_other_size_is_read() {
    let options = mcp_call_options {
        size: size_of::<mcp_call_options>(),
        timeout: 5,
        total_timeout: 6,
        meta: mcp_slice::EMPTY,
        flags: MCP_CALL_WANTS_PROGRESS,
        reserved: 0,
    };
    let mut older = options;
    older.size = core::mem::offset_of!(mcp_call_options, total_timeout);
    let mut newer =
        [options, mcp_call_options { size: 0, timeout: 0, total_timeout: 0, flags: 0, ..options }];
    newer[0].size = size_of_val(&newer);
    // SAFETY: the structures are local variables, as long as they say.
    unsafe {
        let (read, _) = read_options(&raw const older).expect("an older structure");
        assert_eq!(read.timeout.map(|time| time.as_micros()), Some(5));
        assert_eq!((read.total_timeout, read.wants_progress), (None, false));
        let (read, _) = read_options(newer.as_ptr()).expect("a newer structure");
        assert_eq!(read.total_timeout.map(|time| time.as_micros()), Some(6));
        newer[1].timeout = 1;
        assert!(read_options(newer.as_ptr()).is_err());
        assert!(read_options(ptr::null()).is_ok());
    }
}

#[test]
fn flags_about_null_ids_and_drafts_reach_both_roles() {
    for flags in [0, MCP_NULL_IDS] {
        let pair = Pair::with_flags("2025-06-18", flags);
        pair.run(MCP_EVENT_READY, |_, _| {});
        let said = pair.say("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}\n");
        let has_null = said.each_ref().map(|said| said.contains("\"id\":null") && said.contains("-32600"));
        assert_eq!(has_null, [flags != 0; 2], "{said:?}");
    }
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#.to_owned() + "\n";
    for (flags, code) in [(0, "-32022"), (MCP_DRAFT, "-32601")] {
        let pair = Pair::with_flags("2026-07-28", flags);
        pair.run(MCP_EVENT_READY, |_, _| {});
        let [said, _] = pair.say(&initialize);
        assert!(said.contains(code), "{said}");
        // What a client sends is another only over HTTP.
        let config = config("2025-06-18", flags, &[0; 32]);
        // SAFETY: the pointer is to a local variable.
        let made = unsafe { read_client(&raw const config) }.expect("a configuration");
        let all = format!("draft: {:?}", mcp_proto::draft::Draft::ALL);
        assert_eq!(format!("{made:?}").contains(&all), flags != 0, "{made:?}");
    }
}
