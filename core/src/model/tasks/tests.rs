use alloc::format;

use super::super::test_support::{assert_borrowed_round_trip, assert_missing, assert_round_trip};
use super::super::{
    CallToolParams, CallToolResult, CreateMessageParams, ElicitFormParams, ElicitParams, ElicitSchema,
    ElicitUrlParams, InputRequest, Map, RequestParams, ToolExecution,
};
use super::*;
use crate::model::encode_for;
use crate::version::Version;

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

fn raw(text: &'static str) -> RawJson {
    RawJson::new(text).expect("JSON")
}

fn task() -> Task<'static> {
    Task::new("t-9", TaskStatus::Working, "2026-08-01T10:00:00Z", "2026-08-01T10:00:02Z")
        .ttl(60_000)
        .ttl_ms(60_000)
        .poll_interval(500u64)
        .poll_interval_ms(500u64)
        .status_message("queued")
}

// covers: TASK-009, TASK-014, TASK-107, TASK-108
#[test]
fn task_is_written_in_the_form_of_the_revision() {
    let created = CreateTaskResult::new(task());
    let text = encode_for(LEGACY, &created).expect("written");
    assert_eq!(
        text.as_str(),
        r#"{"task":{"taskId":"t-9","status":"working","createdAt":"2026-08-01T10:00:00Z","lastUpdatedAt":"2026-08-01T10:00:02Z","ttl":60000,"pollInterval":500,"statusMessage":"queued"}}"#
    );
    assert!(encode_for(MODERN, &created).is_err());
    let text = encode_for(MODERN, &task().result_type(ResultType::Task)).expect("written");
    assert_eq!(
        text.as_str(),
        r#"{"taskId":"t-9","status":"working","createdAt":"2026-08-01T10:00:00Z","lastUpdatedAt":"2026-08-01T10:00:02Z","ttlMs":60000,"pollIntervalMs":500,"statusMessage":"queued","resultType":"task"}"#
    );
    assert!(encode_for(Version::V2025_06_18, &task()).is_err());
}

// covers: TASK-014, TASK-112
#[test]
fn task_messages_round_trip() {
    /// Reads a message and makes it owned.
    macro_rules! owned {
        ($type:ident) => {
            |text| serde_json::from_str::<$type<'_>>(text).map($type::into_owned)
        };
    }
    let meta = || raw("{}");
    let full = task().ttl(TaskTtl::Unlimited).result(meta()).error(meta()).meta(meta());
    assert_borrowed_round_trip(&full, owned!(Task));
    let ask = InputRequest::Elicit(ElicitParams::form("?", ElicitSchema::default()));
    let requests: InputRequests<'_> = [("a", ask)].into_iter().collect();
    assert_borrowed_round_trip(&task().input_requests(requests), owned!(Task));
    assert_borrowed_round_trip(&CreateTaskResult::new(task()).meta(meta()), owned!(CreateTaskResult));
    let page = ListTasksResult::new([task(), task()].into()).next_cursor("c").meta(meta());
    assert_borrowed_round_trip(&page, owned!(ListTasksResult));
    assert_round_trip(&TaskMetadata::new().ttl(5u64));
    assert_round_trip(&RelatedTaskMetadata::new("t"));
    assert_round_trip(
        &TasksCapability::new().list(meta()).cancel(meta()).requests(TaskRequestsCapability::new()),
    );
    assert_round_trip(&TaskRequestsCapability::new().tools(meta()).sampling(meta()).elicitation(meta()));
    assert_borrowed_round_trip(&GetTaskParams::new("t").meta(meta()), owned!(GetTaskParams));
    assert_borrowed_round_trip(&GetTaskPayloadParams::new("t").meta(meta()), owned!(GetTaskPayloadParams));
    assert_borrowed_round_trip(&CancelTaskParams::new("t").meta(meta()), owned!(CancelTaskParams));
    let update = UpdateTaskParams::new("t", Map::new()).meta(meta());
    assert_borrowed_round_trip(&update, owned!(UpdateTaskParams));
    for member in ["taskId", "status", "createdAt", "lastUpdatedAt"] {
        let text = [
            (r#""taskId":"t""#, "taskId"),
            (r#""status":"working""#, "status"),
            (r#""createdAt":"c""#, "createdAt"),
            (r#""lastUpdatedAt":"u""#, "lastUpdatedAt"),
        ];
        let kept: Vec<_> =
            text.into_iter().filter(|(_, name)| *name != member).map(|(text, _)| text).collect();
        assert_missing::<Task<'_>>(format!("{{{}}}", kept.join(",")).leak(), member);
    }
    assert_missing::<CreateTaskResult<'_>>("{}", "task");
    assert_missing::<ListTasksResult<'_>>("{}", "tasks");
    assert_missing::<RelatedTaskMetadata>("{}", "taskId");
    assert_missing::<GetTaskParams<'_>>("{}", "taskId");
    assert_missing::<GetTaskPayloadParams<'_>>("{}", "taskId");
    assert_missing::<CancelTaskParams<'_>>("{}", "taskId");
    assert_missing::<UpdateTaskParams<'_>>(r#"{"taskId":"t"}"#, "inputResponses");
}

// covers: TASK-014
#[test]
fn ttl_is_a_whole_number_or_null() {
    let read = |text: &'static str| raw(text).parse::<TaskTtl>().ok();
    assert_eq!(read("60000"), Some(TaskTtl::Millis(60_000)));
    assert_eq!(read("60000.0"), Some(TaskTtl::Millis(60_000)));
    assert_eq!(read("null"), Some(TaskTtl::Unlimited));
    for wrong in ["-1", "1.5", "\"5\"", "{}", "true"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    assert_eq!(TaskTtl::Millis(1500).duration(), Some(Duration::from_millis(1500)));
    assert_eq!(TaskTtl::Unlimited.duration(), None);
    assert_eq!(task().time_to_live(), Some(TaskTtl::Millis(60_000)));
    assert_eq!(task().suggested_interval(), Some(Duration::from_millis(500)));
}

// covers: TASK-009, TASK-105, TASK-107
#[test]
fn result_of_a_request_is_read_as_task_in_both_forms() {
    let nested = encode_for(LEGACY, &CreateTaskResult::new(task())).expect("written");
    let flat = encode_for(MODERN, &task().result_type(ResultType::Task)).expect("written");
    for result in [&nested, &flat] {
        let read = Task::from_result(result).expect("a task").expect("a task");
        assert_eq!(read.task_id.as_str(), "t-9");
        assert_eq!(read.time_to_live(), Some(TaskTtl::Millis(60_000)));
    }
    let plain = RawJson::encode(&CallToolResult::text("x")).expect("JSON");
    assert_eq!(Task::from_result(&plain).expect("no task"), None);
    for plain in [r#"{"content":[],"task":{}}"#, r#"{"resultType":"complete","task":{}}"#, "{}"] {
        assert_eq!(Task::from_result(&raw(plain)).expect("no task"), None);
    }
    for wrong in [r#"{"resultType":"task"}"#, r#"{"task":{"taskId":"t"}}"#, r#"{"task":1}"#] {
        assert!(Task::from_result(&raw(wrong)).is_err(), "{wrong}");
    }
}

// covers: TASK-035, TASK-131
#[test]
fn debug_output_omits_ids() {
    let created = format!("{:?}", CreateTaskResult::new(task()));
    let listed = format!("{:?} {:?}", ListTasksResult::new([task()].into()), RelatedTaskMetadata::new("t-9"));
    assert!(!created.contains("t-9") && !listed.contains("t-9"), "{created} {listed}");
}

// covers: TASK-008
#[test]
fn task_member_is_written_in_2025_11_25_alone() {
    let ask = TaskMetadata::new().ttl(5u64);
    let call = CallToolParams::new("t").task(ask.clone());
    assert_eq!(encode_for(LEGACY, &call).expect("written").as_str(), r#"{"name":"t","task":{"ttl":5}}"#);
    assert_eq!(encode_for(MODERN, &call).expect("written").as_str(), r#"{"name":"t"}"#);
    let has_task = |version, json: Result<RawJson, _>| {
        let json: RawJson = json.map_err(|e: crate::EncodeError| (version, e)).expect("written");
        json.member("task").is_some()
    };
    for version in [LEGACY, MODERN] {
        let sampling = CreateMessageParams::new(Vec::new(), 1u64).task(ask.clone());
        let form = ElicitFormParams::new("?", ElicitSchema::default()).task(ask.clone());
        let page = ElicitUrlParams::new("?", "https://a.example").elicitation_id("e").task(ask.clone());
        assert_eq!(has_task(version, encode_for(version, &sampling)), version == LEGACY);
        assert_eq!(has_task(version, encode_for(version, &form)), version == LEGACY);
        assert_eq!(has_task(version, encode_for(version, &page)), version == LEGACY);
    }
    let tool =
        super::super::Tool::new("t", raw("{}")).execution(ToolExecution::new().task_support("optional"));
    assert!(encode_for(LEGACY, &tool).expect("written").member("execution").is_some());
    assert!(encode_for(MODERN, &tool).expect("written").member("execution").is_none());
}

#[test]
fn parameters_of_tasks_name_their_methods() {
    assert_eq!(GetTaskParams::METHOD, "tasks/get");
    assert_eq!(GetTaskPayloadParams::METHOD, "tasks/result");
    assert_eq!(CancelTaskParams::METHOD, "tasks/cancel");
    assert_eq!(UpdateTaskParams::METHOD, "tasks/update");
    let text = encode_for(LEGACY, &task()).expect("written");
    assert_eq!(GetTaskParams::read(&text).expect("a task").status, TaskStatus::Working);
}
