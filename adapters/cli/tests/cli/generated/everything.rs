// A client of the server `mcp-probe` 0.1.0.
//
// Written by `mcp-probe generate rust` from the lists of mcp-probe: run it again instead of editing
// this file.
//
// It needs the packages mcp-proto, mcp-runtime, serde (with `derive`) and serde_json.

#![allow(dead_code, reason = "a program need not call every method")]

use mcp_proto::model::{CallToolResult, GetPromptResult, ReadResourceResult};
use mcp_proto::router::template::{Template, Values};
use mcp_runtime::client::{BlockingCalls, ClientBackend};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a method.
pub type Result<T> = core::result::Result<T, mcp_runtime::Error>;

/// Calls the server `mcp-probe`.
#[derive(Clone, Copy, Debug)]
pub struct McpProbe<'a, B>(pub &'a BlockingCalls<B>);

impl<B: ClientBackend> McpProbe<'_, B> {
    /// Answers with a text
    pub fn test_simple_text(&self) -> Result<CallToolResult<'static>> {
        let name = "test_simple_text";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Answers with a picture
    pub fn test_image_content(&self) -> Result<CallToolResult<'static>> {
        let name = "test_image_content";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Answers with a sound
    pub fn test_audio_content(&self) -> Result<CallToolResult<'static>> {
        let name = "test_audio_content";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Answers with a resource
    pub fn test_embedded_resource(&self) -> Result<CallToolResult<'static>> {
        let name = "test_embedded_resource";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Answers with text, picture and resource
    pub fn test_multiple_content_types(&self) -> Result<CallToolResult<'static>> {
        let name = "test_multiple_content_types";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Reports an error, as a tool does
    pub fn test_error_handling(&self) -> Result<CallToolResult<'static>> {
        let name = "test_error_handling";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Needs a client that declares sampling
    pub fn test_missing_capability(&self) -> Result<CallToolResult<'static>> {
        let name = "test_missing_capability";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Has an argument that clients repeat in a header of HTTP
    pub fn test_custom_header(
        &self,
        arguments: &TestCustomHeaderArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "test_custom_header";
        self.0.call_tool(name, arguments)
    }

    /// Has a schema with much of JSON Schema 2020-12
    ///
    /// The argument is any JSON value: its schema has `allOf`.
    pub fn json_schema_2020_12_tool(&self, arguments: &Value) -> Result<CallToolResult<'static>> {
        let name = "json_schema_2020_12_tool";
        self.0.call_tool(name, arguments)
    }

    /// Sends a request to the client's model and returns its reply
    pub fn test_sampling(
        &self,
        arguments: &TestSamplingArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "test_sampling";
        self.0.call_tool(name, arguments)
    }

    /// Asks the user for a name and an address, and returns the values
    pub fn test_elicitation(
        &self,
        arguments: &TestElicitationArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "test_elicitation";
        self.0.call_tool(name, arguments)
    }

    /// Asks with a form that has defaults
    pub fn test_elicitation_sep1034_defaults(&self) -> Result<CallToolResult<'static>> {
        let name = "test_elicitation_sep1034_defaults";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks with a form that has every kind of choice
    pub fn test_elicitation_sep1330_enums(&self) -> Result<CallToolResult<'static>> {
        let name = "test_elicitation_sep1330_enums";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks the user to visit a web page
    pub fn test_elicitation_url(&self) -> Result<CallToolResult<'static>> {
        let name = "test_elicitation_url";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a name
    pub fn test_input_required_result_elicitation(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_elicitation";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks the model for a capital
    pub fn test_input_required_result_sampling(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_sampling";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for the client's directories
    pub fn test_input_required_result_list_roots(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_list_roots";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a confirmation and keeps state meanwhile
    pub fn test_input_required_result_request_state(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_request_state";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for three things at once
    pub fn test_input_required_result_multiple_inputs(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_multiple_inputs";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks, and asks again
    pub fn test_input_required_result_multi_round(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_multi_round";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks, and detects a modified state
    pub fn test_input_required_result_tampered_state(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_tampered_state";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Requests every kind of input that the client supports
    pub fn test_input_required_result_capabilities(&self) -> Result<CallToolResult<'static>> {
        let name = "test_input_required_result_capabilities";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a confirmation
    pub fn test_streaming_elicitation(&self) -> Result<CallToolResult<'static>> {
        let name = "test_streaming_elicitation";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Logs if the client requests it
    pub fn test_logging_tool(&self) -> Result<CallToolResult<'static>> {
        let name = "test_logging_tool";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Announces that the list of tools has changed
    pub fn test_trigger_tool_change(&self) -> Result<CallToolResult<'static>> {
        let name = "test_trigger_tool_change";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Announces that the list of prompts has changed
    pub fn test_trigger_prompt_change(&self) -> Result<CallToolResult<'static>> {
        let name = "test_trigger_prompt_change";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Changes test://watched-resource and notifies its followers
    pub fn test_touch_watched_resource(&self) -> Result<CallToolResult<'static>> {
        let name = "test_touch_watched_resource";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Find cities
    ///
    /// Cities of the atlas, as a structured result
    pub fn find_cities(&self, arguments: &FindCitiesArguments) -> Result<FindCitiesResult> {
        let name = "find_cities";
        read_result(&self.0.call_tool(name, arguments)?)
    }

    /// Link to a city
    ///
    /// Returns a link to the resource of a city
    pub fn city_link(&self, arguments: &CityLinkArguments) -> Result<CallToolResult<'static>> {
        let name = "city_link";
        self.0.call_tool(name, arguments)
    }

    /// Sign the guest book
    ///
    /// Asks for a name with a form and writes it to guestbook://page
    pub fn sign(&self) -> Result<CallToolResult<'static>> {
        let name = "sign";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Who am I
    ///
    /// Returns what the server knows about its client
    pub fn whoami(&self) -> Result<WhoamiResult> {
        let name = "whoami";
        read_result(&self.0.call_tool(name, &serde_json::json!({}))?)
    }

    /// Show the counter
    ///
    /// Shows a counter, as a page where the client shows apps
    pub fn show_counter(&self) -> Result<CallToolResult<'static>> {
        let name = "show_counter";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Adds one to the counter; for its page alone
    pub fn raise_counter(&self) -> Result<CallToolResult<'static>> {
        let name = "raise_counter";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Turns a text around, character by character
    pub fn text_reverse(
        &self,
        arguments: &TextReverseArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "text.reverse";
        self.0.call_tool(name, arguments)
    }

    /// Counts characters, words and lines of a text
    pub fn text_measure(&self, arguments: &TextMeasureArguments) -> Result<TextMeasureResult> {
        let name = "text.measure";
        read_result(&self.0.call_tool(name, arguments)?)
    }

    /// Reports progress before it answers
    pub fn test_tool_with_progress(&self) -> Result<CallToolResult<'static>> {
        let name = "test_tool_with_progress";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Cuts its stream, so that the client resumes it (HTTP, 2025-11-25)
    pub fn test_reconnection(&self) -> Result<CallToolResult<'static>> {
        let name = "test_reconnection";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Logs while it works
    pub fn test_tool_with_logging(&self) -> Result<CallToolResult<'static>> {
        let name = "test_tool_with_logging";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Greets, never as a task
    pub fn greet(&self, arguments: &GreetArguments) -> Result<CallToolResult<'static>> {
        let name = "greet";
        self.0.call_tool(name, arguments)
    }

    /// Takes some seconds, as a task if the client supports it
    pub fn slow_compute(
        &self,
        arguments: &SlowComputeArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "slow_compute";
        self.0.call_tool(name, arguments)
    }

    /// Fails as a tool does, and only as a task
    pub fn failing_job(&self) -> Result<CallToolResult<'static>> {
        let name = "failing_job";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Ends with a protocol error
    pub fn protocol_error_job(&self) -> Result<CallToolResult<'static>> {
        let name = "protocol_error_job";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a confirmation in the middle of a task, and deletes nothing
    pub fn confirm_delete(
        &self,
        arguments: &ConfirmDeleteArguments,
    ) -> Result<CallToolResult<'static>> {
        let name = "confirm_delete";
        self.0.call_tool(name, arguments)
    }

    /// Asks for two things at once in the middle of a task
    pub fn multi_input(&self) -> Result<CallToolResult<'static>> {
        let name = "multi_input";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a name, and then becomes a task
    pub fn test_tool_with_task(&self) -> Result<CallToolResult<'static>> {
        let name = "test_tool_with_task";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Asks for a name, by a task of the client if it hosts such tasks (2025-11-25)
    pub fn ask_as_task(&self) -> Result<CallToolResult<'static>> {
        let name = "ask_as_task";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Open or close the annex
    ///
    /// Opens or closes the annex: while it is open there are the tool annex_bell, the prompt
    /// annex_tour and the resource annex://sign
    pub fn annex(&self, arguments: &AnnexArguments) -> Result<CallToolResult<'static>> {
        let name = "annex";
        self.0.call_tool(name, arguments)
    }

    /// Write a note
    ///
    /// Writes a note, which can then be read as the resource note://TITLE
    pub fn write_note(&self, arguments: &WriteNoteArguments) -> Result<CallToolResult<'static>> {
        let name = "write_note";
        self.0.call_tool(name, arguments)
    }

    /// Delete a note
    ///
    /// Deletes a note
    pub fn delete_note(&self, arguments: &DeleteNoteArguments) -> Result<CallToolResult<'static>> {
        let name = "delete_note";
        self.0.call_tool(name, arguments)
    }

    /// Echo
    ///
    /// Returns the given text
    pub fn echo(&self, arguments: &EchoArguments) -> Result<CallToolResult<'static>> {
        let name = "echo";
        self.0.call_tool(name, arguments)
    }

    /// Add
    ///
    /// Adds two numbers; integers exactly
    pub fn add(&self, arguments: &AddArguments) -> Result<AddResult> {
        let name = "add";
        read_result(&self.0.call_tool(name, arguments)?)
    }

    /// Count
    ///
    /// Counts from 1, slowly, and reports progress; can be cancelled
    pub fn count(&self, arguments: &CountArguments) -> Result<CallToolResult<'static>> {
        let name = "count";
        self.0.call_tool(name, arguments)
    }

    /// Fail
    ///
    /// Always reports a tool error
    pub fn fail(&self) -> Result<CallToolResult<'static>> {
        let name = "fail";
        self.0.call_tool(name, &serde_json::json!({}))
    }

    /// Says one thing
    pub fn test_simple_prompt(&self) -> Result<GetPromptResult<'static>> {
        let name = "test_simple_prompt";
        self.0.get_prompt(name, &())
    }

    /// Says its arguments
    pub fn test_prompt_with_arguments_prompt(
        &self,
        arguments: &TestPromptWithArgumentsPromptArguments,
    ) -> Result<GetPromptResult<'static>> {
        let name = "test_prompt_with_arguments";
        self.0.get_prompt(name, arguments)
    }

    /// Has a resource in it
    pub fn test_prompt_with_embedded_resource_prompt(
        &self,
        arguments: &TestPromptWithEmbeddedResourcePromptArguments,
    ) -> Result<GetPromptResult<'static>> {
        let name = "test_prompt_with_embedded_resource";
        self.0.get_prompt(name, arguments)
    }

    /// Has a picture in it
    pub fn test_prompt_with_image_prompt(&self) -> Result<GetPromptResult<'static>> {
        let name = "test_prompt_with_image";
        self.0.get_prompt(name, &())
    }

    /// Asks for context first
    pub fn test_input_required_result_prompt(&self) -> Result<GetPromptResult<'static>> {
        let name = "test_input_required_result_prompt";
        self.0.get_prompt(name, &())
    }

    /// Plan a journey
    ///
    /// Asks for a plan of a journey
    pub fn travel_plan_prompt(
        &self,
        arguments: &TravelPlanPromptArguments,
    ) -> Result<GetPromptResult<'static>> {
        let name = "travel_plan";
        self.0.get_prompt(name, arguments)
    }

    /// The data of an id
    ///
    /// Reads `test://template/{id}/data`.
    pub fn read_template(&self, id: &str) -> Result<ReadResourceResult<'static>> {
        let template = "test://template/{id}/data";
        let mut values = Values::new();
        values = values.text("id", id);
        self.0.read_resource(&expand(template, &values)?)
    }

    /// Cities
    ///
    /// Facts about a city; both variables can be completed
    ///
    /// Reads `atlas://{country}/{city}`.
    pub fn read_city(&self, country: &str, city: &str) -> Result<ReadResourceResult<'static>> {
        let template = "atlas://{country}/{city}";
        let mut values = Values::new();
        values = values.text("country", country);
        values = values.text("city", city);
        self.0.read_resource(&expand(template, &values)?)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestCustomHeaderArguments {
    /// Repeated in the header field `Mcp-Param-Region` by clients over HTTP.
    pub region: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestSamplingArguments {
    /// Message to the model.
    pub prompt: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestElicitationArguments {
    /// Message to the user.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindCitiesArguments {
    /// Cities to include; all of them by default.
    ///
    /// Default: `{"countries":[],"min_population":0}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FindCitiesArgumentsFilter>,
    /// Maximum number of cities.
    ///
    /// Default: `100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Order of the result.
    ///
    /// Default: `"name"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<FindCitiesArgumentsSort>,
}

/// Cities to include; all of them by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindCitiesArgumentsFilter {
    /// Only cities in these countries; any country if empty.
    ///
    /// Default: `[]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub countries: Option<Vec<String>>,
    /// Only cities with at least this number of inhabitants.
    ///
    /// Default: `0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_population: Option<u64>,
}

/// Order of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FindCitiesArgumentsSort {
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "population")]
    Population,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindCitiesResult {
    pub cities: Vec<FindCitiesResultCitiesItem>,
    /// Number of matching cities beyond the limit.
    pub more: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindCitiesResultCitiesItem {
    pub country: String,
    pub name: String,
    /// Approximate number of inhabitants.
    pub population: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CityLinkArguments {
    /// City in lower case: oslo.
    pub city: String,
    /// Country in lower case: norway.
    pub country: String,
}

/// Identity of the client, as it declares itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhoamiResult {
    pub capabilities: Value,
    pub client: Value,
    pub revision: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextReverseArguments {
    /// Text to examine.
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextMeasureArguments {
    /// Text to examine.
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextMeasureResult {
    pub characters: u64,
    pub lines: u64,
    pub words: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GreetArguments {
    /// Name to greet.
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowComputeArguments {
    /// Label of the result.
    ///
    /// Default: `""`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Seconds until the result.
    pub seconds: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfirmDeleteArguments {
    /// Name of the file, which is not deleted.
    pub filename: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnnexArguments {
    /// True opens the annex, false closes it.
    pub open: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WriteNoteArguments {
    /// Text of the note.
    pub text: String,
    /// Title: lower-case letters, digits and hyphens.
    pub title: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeleteNoteArguments {
    /// Title: lower-case letters, digits and hyphens.
    pub title: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EchoArguments {
    /// Text to answer with.
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddArguments {
    /// First summand.
    pub a: f64,
    /// Second summand.
    pub b: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AddResult {
    /// The sum of `a` and `b`.
    pub sum: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountArguments {
    /// Milliseconds before each step.
    ///
    /// Default: `100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Number to count to.
    pub to: u64,
}

/// Arguments of the prompt `test_prompt_with_arguments`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestPromptWithArgumentsPromptArguments {
    /// First test argument
    pub arg1: String,
    /// Second test argument
    pub arg2: String,
}

/// Arguments of the prompt `test_prompt_with_embedded_resource`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestPromptWithEmbeddedResourcePromptArguments {
    /// URI of the resource to embed
    #[serde(rename = "resourceUri")]
    pub resource_uri: String,
}

/// Arguments of the prompt `travel_plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TravelPlanPromptArguments {
    /// Where to
    pub country: String,
    /// To one city only
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// How long, in days: a number; 3 if left out
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<String>,
}

/// Reads the structured result of a tool. A tool that reports a failure has none.
fn read_result<T: serde::de::DeserializeOwned>(result: &CallToolResult<'_>) -> Result<T> {
    let read = result.parse_structured();
    read.map_err(|error| mcp_runtime::Error::UnexpectedResult(error.to_string()))
}

/// Fills in a URI template.
fn expand(template: &str, values: &Values<'_>) -> Result<String> {
    let failed = |text: String| mcp_runtime::Error::UnexpectedResult(text);
    let template = Template::new(template).map_err(|error| failed(error.to_string()))?;
    let uri = template.expand(values);
    uri.map_err(|error| failed(error.to_string()))
}
