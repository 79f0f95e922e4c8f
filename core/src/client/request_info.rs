//! Properties of a request, for code around calls.

use alloc::string::String;

use crate::methods;
use crate::raw::RawJson;

/// Returns the name that a request of a client is about: of the tool or prompt, the URI of the resource, or the id of the
/// task.
///
/// For the methods that have one it is the value of the header field `Mcp-Name` (HTTP-033). Returns `None` for other
/// methods, and without a string there.
#[must_use]
pub fn request_name(method: &str, params: &RawJson) -> Option<String> {
    let member = match method {
        methods::TASKS_RESULT => "taskId",
        methods::SKILLS_GET | methods::DIRECTORY_READ => "uri",
        _ => methods::subject_member(method)?,
    };
    params.member(member)?.string()
}

/// Returns whether a method of the protocol only reads: lists, reads, prompts, completions, and the state of tasks.
///
/// Such a request may be repeated, as safe methods of HTTP may. Tools are not among them, and neither are methods that the
/// protocol does not know.
#[must_use]
pub fn is_safe_method(method: &str) -> bool {
    matches!(
        method,
        methods::TOOLS_LIST
            | methods::RESOURCES_LIST
            | methods::TEMPLATES_LIST
            | methods::RESOURCES_READ
            | methods::PROMPTS_LIST
            | methods::PROMPTS_GET
            | methods::COMPLETE
            | methods::SKILLS_LIST
            | methods::SKILLS_GET
            | methods::DIRECTORY_READ
            | methods::TASKS_GET
            | methods::TASKS_RESULT
            | methods::TASKS_LIST
    )
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;
    use crate::methods::EntryKind;

    // covers: HTTP-033
    #[test]
    fn name_of_request_is_that_of_its_subject() {
        let params =
            RawJson::new(r#"{"name":"a\u0062","uri":"test:///b","taskId":"c"}"#).expect("valid JSON");
        let name = |method| request_name(method, &params);
        for (method, expected) in [
            (methods::TOOLS_CALL, Some("ab")),
            (methods::PROMPTS_GET, Some("ab")),
            (methods::RESOURCES_READ, Some("test:///b")),
            (methods::SKILLS_GET, Some("test:///b")),
            (methods::TASKS_GET, Some("c")),
            (methods::TASKS_RESULT, Some("c")),
            (methods::TOOLS_LIST, None),
            ("x/custom", None),
        ] {
            assert_eq!(name(method), expected.map(|name| name.to_string()), "{method}");
        }
        let wrong = RawJson::new(r#"{"name":1}"#).expect("valid JSON");
        assert_eq!(request_name(methods::TOOLS_CALL, &wrong), None);
    }

    #[test]
    fn only_methods_that_read_are_safe() {
        assert!(EntryKind::ALL.into_iter().all(|kind| is_safe_method(kind.list_method())));
        assert!(is_safe_method(methods::RESOURCES_READ) && is_safe_method(methods::COMPLETE));
        for method in [methods::TOOLS_CALL, methods::TASKS_CANCEL, methods::TASKS_UPDATE, "x/custom"] {
            assert!(!is_safe_method(method), "{method}");
        }
    }
}
