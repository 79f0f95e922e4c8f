//! Types of members, and the concrete type of a value.

use serde_json::Value;

/// Returns the type of a member, or of the items if it is a list. A trailing `{}` means the values of a map. `None`
/// if the type is the same in every revision.
pub(super) fn part_type(of: &str, member: &str) -> Option<&'static str> {
    Some(match (of, member) {
        ("ListToolsResult" | "CreateMessageParams", "tools") => "Tool",
        ("ListResourcesResult", "resources") => "Resource",
        ("ListResourceTemplatesResult", "resourceTemplates") => "ResourceTemplate",
        ("ListPromptsResult", "prompts") => "Prompt",
        ("Prompt", "arguments") => "PromptArgument",
        ("CallToolResult" | "PromptMessage" | "ToolResultContent", "content") => "Content",
        ("SamplingMessage" | "CreateMessageResult", "content") => "Content",
        ("GetPromptResult", "messages") => "PromptMessage",
        ("CreateMessageParams", "messages") => "SamplingMessage",
        ("CreateTaskResult", "task") | ("ListTasksResult", "tasks") => "Task",
        ("ReadResourceResult", "contents") | ("EmbeddedResource", "resource") => "ResourceContents",
        (
            "TextContent" | "ImageContent" | "AudioContent" | "ResourceLink" | "EmbeddedResource"
            | "Resource" | "ResourceTemplate",
            "annotations",
        ) => "Annotations",
        ("CompleteParams", "ref") => "PromptReference",
        ("ClientCapabilities", "roots") => "RootsCapability",
        ("ClientCapabilities", "sampling") => "SamplingCapability",
        ("ClientCapabilities", "elicitation") => "ElicitationCapability",
        ("InitializeParams", "capabilities")
        | ("MissingRequiredClientCapability", "requiredCapabilities") => "ClientCapabilities",
        ("InitializeParams", "clientInfo") | ("InitializeResult", "serverInfo") => "Implementation",
        ("InitializeResult" | "DiscoverResult", "capabilities") => "ServerCapabilities",
        ("ElicitFormParams", "requestedSchema") => "ElicitSchema",
        ("ElicitSchema", "properties") => "Field{}",
        ("ElicitResult", "content") => "ElicitValue{}",
        ("UrlElicitationRequired", "elicitations") => "ElicitUrlParams",
        ("ListRootsResult", "roots") => "Root",
        ("SubscriptionsListenParams" | "SubscriptionsAcknowledgedParams", "notifications") => {
            "SubscriptionFilter"
        }
        ("InputRequiredResult" | "Task", "inputRequests") => "InputRequest{}",
        (
            "CallToolParams" | "GetPromptParams" | "ReadResourceParams" | "UpdateTaskParams",
            "inputResponses",
        ) => "InputResponse{}",
        ("CreateMessageRequest", "params") => "CreateMessageParams",
        ("ElicitRequest", "params") => "ElicitParams",
        _ => return None,
    })
}

/// Returns the type of a value for a `name` that stands for several.
pub(super) fn concrete_type<'a>(name: &'a str, value: &Value) -> &'a str {
    let text = |member: &str| value[member].as_str().unwrap_or_default();
    match name {
        "Content" => match text("type") {
            "text" => "TextContent",
            "image" => "ImageContent",
            "audio" => "AudioContent",
            "resource" => "EmbeddedResource",
            "resource_link" => "ResourceLink",
            "tool_use" => "ToolUseContent",
            "tool_result" => "ToolResultContent",
            _ => name,
        },
        "ResourceContents" if value.get("text").is_some() => "TextResourceContents",
        "ResourceContents" => "BlobResourceContents",
        "PromptReference" if text("type") != "ref/prompt" => "ResourceTemplateReference",
        "ElicitValue" if value.is_array() => "ElicitValue::Choices",
        "ElicitParams" if text("mode") == "url" => "ElicitUrlParams",
        "ElicitParams" => "ElicitFormParams",
        "InputRequest" if text("method") == "elicitation/create" => "ElicitRequest",
        "InputRequest" if text("method") == "sampling/createMessage" => "CreateMessageRequest",
        "InputResponse" if value.get("action").is_some() => "ElicitResult",
        "InputResponse" if value.get("roots").is_some() => "ListRootsResult",
        "InputResponse" => "CreateMessageResult",
        "Field" => match text("type") {
            "boolean" => "BooleanSchema",
            "number" | "integer" => "NumberSchema",
            "array" if value["items"].get("enum").is_some() => "UntitledMultiSelectEnumSchema",
            "array" => "TitledMultiSelectEnumSchema",
            _ if value.get("oneOf").is_some() => "TitledSingleSelectEnumSchema",
            _ if value.get("enumNames").is_some() => "LegacyTitledEnumSchema",
            _ if value.get("enum").is_some() => "UntitledSingleSelectEnumSchema",
            _ => "StringSchema",
        },
        name => name,
    }
}

/// Returns whether a value meets the condition that the table has behind the name of its type.
pub(super) fn matches_condition(with: &str, value: &Value) -> bool {
    let has = |member: &str| value.get(member).is_some();
    match with {
        "with an object as `structuredContent`" => value["structuredContent"].is_object(),
        "with another value as `structuredContent`" | "with a `structuredContent` that is no object" => {
            has("structuredContent") && !value["structuredContent"].is_object()
        }
        "with elicitation by web pages alone" => {
            let asks = &value["elicitation"];
            asks.get("url").is_some() && asks.get("form").is_none()
        }
        "with several blocks in a message" => {
            value["messages"].as_array().is_some_and(|all| all.iter().any(|m| m["content"].is_array()))
        }
        "with `tools` or `toolChoice`" => has("tools") || has("toolChoice"),
        "with several blocks" => value["content"].is_array(),
        "without `elicitationId`" => !has("elicitationId"),
        "with an `outputSchema` whose root is not of type `object`" => {
            has("outputSchema") && value["outputSchema"]["type"] != "object"
        }
        other => panic!("unknown condition of the table: `{other}`"),
    }
}
