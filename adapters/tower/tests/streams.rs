//! Event streams, progress, questions, timers: without a runtime, and on virtual time.

use alloc::sync::Arc;
use core::future::{Future as _, pending, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use std::sync::Mutex;

use futures_lite::future::{block_on, zip};
use mcp_tower::mcp_proto::model::{ElicitAction, ElicitSchema, StringSchema};
use mcp_tower::mcp_proto::{Change, Progress};
use mcp_tower::{Cx, HttpConfig, McpService, Router, RpcError};
use serde_json::{Value, json};

use crate::support::{
    CountingWaker, Events, Legacy, VirtualTime, answer, call, call_with_progress, json_of, modern,
    modern_with, poll_once, text_of, tool,
};

/// Polls the wrapped future twice, so that what was reported before is sent.
async fn pause() {
    let mut is_second = false;
    poll_fn(|cx| {
        if is_second {
            return Poll::Ready(());
        }
        is_second = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn count(cx: &mut Cx, _: Value) -> Result<&'static str, RpcError> {
    for n in 1..=3 {
        cx.progress(Progress::new(n.into()))?;
        pause().await;
    }
    cx.publish(&Change::Tools);
    Ok("counted")
}

fn ask(cx: &mut Cx, _: Value) -> Result<String, RpcError> {
    let form = ElicitSchema::new([("name", StringSchema::new().into())]);
    let answer = cx.elicit("name", "For whom?", form)?;
    Ok(match answer.action {
        ElicitAction::Accept => format!("{:?}", answer.content.unwrap_or_default().get("name")),
        _ => "nobody".into(),
    })
}

fn router() -> Router {
    let mut router = Router::new("streams", "1");
    router
        .tool_with(tool("count"), async |cx: &mut Cx, arguments: Value| count(cx, arguments).await)
        .tool_with(tool("ask"), async |cx: &mut Cx, arguments: Value| ask(cx, arguments))
        .tool_with(tool("nap"), async |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            cx.sleep(Duration::from_secs(60)).await?;
            Ok("awake")
        })
        .tool_with(tool("endless"), async |_: &mut Cx, _: Value| -> String { pending().await });
    router
}

fn service() -> McpService {
    McpService::new(router()).unwrap()
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["method"].as_str().unwrap_or("result")).collect()
}

#[test]
fn progress_makes_the_response_a_stream() {
    let service = service();
    let messages = Events::new(answer(&service, call_with_progress("count"))).rest();
    let (last, reports) = messages.split_last().unwrap();
    assert_eq!(text_of(last), "counted");
    assert!(!reports.is_empty());
    assert!(methods(reports).iter().all(|method| *method == "notifications/progress"), "{reports:?}");
    let client = Legacy::open(&service, &json!({}));
    let messages = Events::new(block_on(client.call("count")).unwrap()).rest();
    assert_eq!(text_of(messages.last().unwrap()), "counted");
    assert_eq!(methods(&messages)[0], "notifications/progress");
}

#[test]
fn modern_questions_are_answered_in_the_next_request() {
    let service = service();
    let capabilities = json!({ "elicitation": {} });
    let params = json!({ "name": "ask", "arguments": {} });
    let (_, asked) = json_of(answer(&service, modern_with("tools/call", params.clone(), &capabilities)));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut again = params;
    again["requestState"] = asked["result"]["requestState"].clone();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    again["inputResponses"] = json!({ key.as_str(): { "action": "accept", "content": { "name": "Ada" } } });
    let (_, answered) = json_of(answer(&service, modern_with("tools/call", again, &capabilities)));
    assert!(text_of(&answered).contains("Ada"), "{answered}");
}

#[test]
fn legacy_questions_are_asked_on_the_stream_of_the_call() {
    let service = service();
    let client = Legacy::open(&service, &json!({ "elicitation": {} }));
    let mut events = Events::new(block_on(client.call("ask")).unwrap());
    let question = events.next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
    let messages = events.rest();
    assert!(text_of(&messages[0]).contains("Ada"), "{messages:?}");
}

#[test]
fn changes_reach_get_streams_and_subscriptions() {
    let service = service();
    let client = Legacy::open(&service, &json!({}));
    let mut events = client.listen();
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut subscribed = Events::new(answer(&service, modern("subscriptions/listen", params)));
    assert_eq!(subscribed.next().unwrap()["method"], "notifications/subscriptions/acknowledged");
    let (waiting, woken) = (&mut events, Arc::new(CountingWaker::default()));
    let waker = Waker::from(woken.clone());
    assert!(waiting.poll_next(&mut Context::from_waker(&waker)).is_pending());
    service.publish(&Change::Tools).unwrap();
    assert!(woken.count() > 0);
    assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(subscribed.next().unwrap()["method"], "notifications/tools/list_changed");
    // A handler publishes, too.
    json_of(answer(&service, call("count", json!({}))));
    assert_eq!(events.next().unwrap()["method"], "notifications/tools/list_changed");
    // DELETE ends the stream of the session.
    assert_eq!(answer(&service, client.request("DELETE", String::new())).status(), 204);
    assert_eq!(events.next(), None);
}

/// Sets a flag when it is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// HTTP-042
#[test]
fn dropping_a_body_cancels_a_modern_call_and_keeps_a_legacy_one() {
    let dropped = Arc::new(AtomicBool::new(false));
    let mut router = router();
    let flag = dropped.clone();
    router.tool_with(tool("report"), async move |cx: &mut Cx, _: Value| -> Result<String, RpcError> {
        let _flag = DropFlag(flag.clone());
        cx.progress(Progress::new(1.into()))?;
        pause().await;
        pending().await
    });
    let service = McpService::new(router).unwrap();
    let mut events = Events::new(answer(&service, call_with_progress("report")));
    assert_eq!(events.next().unwrap()["method"], "notifications/progress");
    assert!(!dropped.load(Ordering::SeqCst));
    drop(events);
    assert!(dropped.swap(false, Ordering::SeqCst));
    let client = Legacy::open(&service, &json!({}));
    let mut events = Events::new(block_on(client.call("report")).unwrap());
    assert_eq!(events.next().unwrap()["method"], "notifications/progress");
    drop(events);
    assert!(!dropped.load(Ordering::SeqCst), "the client may come back");
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 }
    }));
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn a_handler_sleeps_on_the_timer_of_the_service() {
    let time = VirtualTime::with_timers();
    let service = McpService::builder(router()).timer(time.clone()).build().unwrap();
    let mut response = service.handle(call("nap", json!({})));
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    let context = &mut Context::from_waker(&waker);
    // After five seconds of silence the response becomes a stream.
    assert!(pin!(&mut response).poll(context).is_pending());
    time.advance(Duration::from_secs(6));
    assert!(woken.count() > 0);
    let Poll::Ready(Ok(response)) = pin!(&mut response).poll(context) else { panic!("no response") };
    let mut events = Events::new(response);
    assert!(events.poll_next(context).is_pending());
    for _ in 0..4 {
        time.advance(Duration::from_secs(12));
        assert!(events.poll_next(context).is_pending());
    }
    let before = woken.count();
    time.advance(Duration::from_secs(10));
    assert!(woken.count() > before);
    assert_eq!(text_of(&events.next().unwrap()), "awake");
}

#[test]
fn without_timers_deadlines_are_met_when_something_is_polled() {
    let time = VirtualTime::default();
    let service = McpService::builder(router()).timer(time.clone()).build().unwrap();
    let mut response = service.handle(call("nap", json!({})));
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(woken.clone());
    assert!(pin!(&mut response).poll(&mut Context::from_waker(&waker)).is_pending());
    time.advance(Duration::from_secs(61));
    assert_eq!(woken.count(), 0);
    json_of(answer(&service, modern("tools/list", json!({}))));
    assert!(woken.count() > 0);
    // After five seconds of silence the response is a stream.
    let messages = Events::new(block_on(response).unwrap()).rest();
    assert_eq!(text_of(&messages[0]), "awake");
}

#[test]
fn the_driver_does_the_work_that_nobody_polls_for() {
    let time = VirtualTime::with_timers();
    let http = HttpConfig::new().session_idle_timeout(Duration::from_secs(100));
    let service = McpService::builder(router()).timer(time.clone()).http(http).build().unwrap();
    let client = Legacy::open(&service, &json!({}));
    let mut run = service.run();
    assert!(poll_once(&mut run).is_pending());
    time.advance(Duration::from_secs(101));
    assert!(poll_once(&mut run).is_pending());
    // The session has expired.
    assert_eq!(block_on(client.call("count")).unwrap().status(), 404);
}

#[test]
fn a_stream_that_is_not_read_stops_no_other() {
    let service = service();
    let client = Legacy::open(&service, &json!({}));
    let mut stalled = client.listen();
    assert!(stalled.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    let (counted, listed) = block_on(zip(
        service.handle(call_with_progress("count")),
        service.handle(modern("tools/list", json!({}))),
    ));
    assert_eq!(json_of(listed.unwrap()).0, 200);
    assert_eq!(text_of(Events::new(counted.unwrap()).rest().last().unwrap()), "counted");
    // It gets what it missed, as one message.
    assert_eq!(stalled.next().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_woken_handler_wakes_its_own_response_and_is_polled_by_no_other() {
    let (gate, passed) = (Arc::new(Mutex::new((false, None::<Waker>))), Arc::new(AtomicBool::new(false)));
    let (inside, flag) = (gate.clone(), passed.clone());
    let mut router = router();
    router.tool_with(tool("gate"), async move |_: &mut Cx, _: Value| {
        poll_fn(|cx| {
            let mut gate = inside.lock().unwrap();
            gate.1 = Some(cx.waker().clone());
            if gate.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        flag.store(true, Ordering::SeqCst);
        "passed"
    });
    let service = McpService::new(router).unwrap();
    let client = Legacy::open(&service, &json!({}));
    let mut events = client.listen();
    assert!(events.poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut response = service.handle(call("gate", json!({})));
    let woken = Arc::new(CountingWaker::default());
    let context_waker = Waker::from(woken.clone());
    let context = &mut Context::from_waker(&context_waker);
    assert!(pin!(&mut response).poll(context).is_pending());
    let waker = {
        let mut gate = gate.lock().unwrap();
        gate.0 = true;
        gate.1.clone().unwrap()
    };
    let before = woken.count();
    waker.wake();
    assert!(woken.count() > before);
    service.publish(&Change::Tools).unwrap();
    assert!(events.next().is_some());
    assert!(!passed.load(Ordering::SeqCst), "polled by the body of another request");
    assert!(pin!(&mut response).poll(context).is_ready());
    assert!(passed.load(Ordering::SeqCst));
}

/// SSE-024: the rest of a response whose body was dropped is fetched by a GET.
#[test]
fn a_dropped_stream_is_resumed() {
    let service = service();
    let client = Legacy::open(&service, &json!({}));
    let response = block_on(client.call("count")).unwrap();
    let mut body = Box::pin(response.into_body());
    let frame = block_on(poll_fn(|cx| http_body::Body::poll_frame(body.as_mut(), cx))).unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    drop(body);
    let mut request = client.request("GET", String::new());
    request.headers_mut().insert("last-event-id", id.parse().unwrap());
    let mut events = Events::new(answer(&service, request));
    let mut last = Value::Null;
    while last.get("result").is_none() {
        last = events.next().unwrap();
    }
    assert_eq!(text_of(&last), "counted");
}
