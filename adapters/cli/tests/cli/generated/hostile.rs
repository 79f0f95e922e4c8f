// A client of the server `fixture` 1.
//
// Written by `mcp-probe generate rust` from the lists of sh: run it again instead of editing this
// file.
//
// It needs the packages mcp-proto, mcp-runtime, serde (with `derive`) and serde_json.
// Without a method: the resource template x://{.

#![allow(dead_code, reason = "a program need not call every method")]

use mcp_proto::model::{CallToolResult, GetPromptResult, ReadResourceResult};
use mcp_proto::router::template::{Template, Values};
use mcp_runtime::client::{BlockingCalls, ClientBackend};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The result of a method.
pub type Result<T> = core::result::Result<T, mcp_runtime::Error>;

/// Calls the server `fixture`.
#[derive(Clone, Copy, Debug)]
pub struct Fixture<'a, B>(pub &'a BlockingCalls<B>);

impl<B: ClientBackend> Fixture<'_, B> {
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn fn_(&self, arguments: &FnArguments) -> Result<CallToolResult<'static>> {
        let name = "fn";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn fn_2(&self, arguments: &Map<String, Value>) -> Result<CallToolResult<'static>> {
        let name = "fn";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn unnamed(&self, arguments: &Map<String, Value>) -> Result<CallToolResult<'static>> {
        let name = "";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// The argument is any JSON value: its schema has `oneOf`.
    pub fn unnamed_2(&self, arguments: &Value) -> Result<CallToolResult<'static>> {
        let name = "*/ \u{1b}";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn tool_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234(
        &self,
        arguments: &ToolX12346789x12346789x12346789x12346789x12346789x12346789x1,
    ) -> Result<CallToolResult<'static>> {
        let name = "tool_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn recursive(&self, arguments: &RecursiveArguments) -> Result<CallToolResult<'static>> {
        let name = "recursive";
        self.0.call_tool(name, arguments)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn string(&self) -> Result<StringResult> {
        let name = "String";
        read_result(&self.0.call_tool(name, &serde_json::json!({}))?)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    pub fn fn_prompt(&self, arguments: &FnPromptArguments) -> Result<GetPromptResult<'static>> {
        let name = "fn";
        self.0.get_prompt(name, arguments)
    }

    pub fn prompt_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x12(
        &self,
        arguments: &PromptX12346789x12346789x12346789x12346789x12346789x12346789Arguments,
    ) -> Result<GetPromptResult<'static>> {
        let name = "prompt_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789";
        self.0.get_prompt(name, arguments)
    }

    pub fn plain_prompt(&self) -> Result<GetPromptResult<'static>> {
        let name = "plain prompt";
        self.0.get_prompt(name, &())
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// Reads `x://{values}/{self}{?template,q*}`.
    pub fn read_values(
        &self,
        values_2: &str,
        self_: &str,
        template_2: Option<&str>,
        q: Option<&str>,
    ) -> Result<ReadResourceResult<'static>> {
        let template = "x://{values}/{self}{?template,q*}";
        let mut values = Values::new();
        values = values.text("values", values_2);
        values = values.text("self", self_);
        if let Some(text) = template_2 {
            values = values.text("template", text);
        }
        if let Some(text) = q {
            values = values.text("q", text);
        }
        self.0.read_resource(&expand(template, &values)?)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// Reads
    /// `x://{variable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789}{?qvariable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789}`.
    pub fn read_values_2(
        &self,
        variable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x: &str,
        qvariable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789: Option<&str>,
    ) -> Result<ReadResourceResult<'static>> {
        let template = "x://{variable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789}{?qvariable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789}";
        let mut values = Values::new();
        values = values.text(
            "variable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789",
            variable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x,
        );
        if let Some(text) = qvariable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789 {
            values = values.text(
                "qvariable_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789",
                text,
            );
        }
        self.0.read_resource(&expand(template, &values)?)
    }

    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// Reads `x://plain`.
    pub fn read_none(&self) -> Result<ReadResourceResult<'static>> {
        let template = "x://plain";
        let values = Values::new();
        self.0.read_resource(&expand(template, &values)?)
    }
}

/// T
///
/// \u202e*/ } fn main() {\r
/// '''
/// panic!()
/// '''
/// "\" #\[x\] \<b\> `\udb40\udc41
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FnArguments {
    #[serde(rename = "")]
    pub unnamed: Vec<Option<String>>,
    #[serde(rename = "1st")]
    pub n1st: FnNode,
    #[serde(rename = "a b")]
    pub a_b: f64,
    #[serde(rename = "a-b")]
    pub a_b_2: u64,
    /// Any JSON value: its schema has `oneOf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub either: Option<Value>,
    /// Any JSON value: its schema refers to something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<FnArgumentsFixed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Map<String, Value>>,
    #[serde(rename = "größe")]
    pub gr_e: FnA1b,
    /// Any JSON value: its type is string or integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<BTreeMap<String, i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maybe: Option<FnArgumentsMaybe>,
    #[serde(
        rename = "member_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x12:
        Option<Vec<FnArgumentsMemberX12346789x12346789x12346789x12346789x123467>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<FnNode>,
    /// Any JSON value: its values are not all strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Value>,
    /// Any JSON value: its schema has `patternProperties`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patterns: Option<Value>,
    #[serde(rename = "self")]
    pub self_: bool,
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// Default: `"x\u200b"`.
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FnNode {
    /// Any JSON value: its schema refers to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Value>,
    pub value: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FnArgumentsFixed {
    #[serde(rename = "yes")]
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FnA1b {
    #[serde(rename = "")]
    Unnamed,
    #[serde(rename = "self")]
    SelfValue,
    #[serde(rename = "Self")]
    SelfValue2,
    #[serde(rename = "a b")]
    AB,
    #[serde(rename = "a-b")]
    AB2,
    #[serde(rename = "9")]
    N9,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FnArgumentsMaybe {
    #[serde(rename = "on")]
    On,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FnArgumentsMemberX12346789x12346789x12346789x12346789x123467 {
    #[serde(
        rename = "inner_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x123: Option<Value>,
}

/// T
///
/// \u202e*/ } fn main() {\r
/// '''
/// panic!()
/// '''
/// "\" #\[x\] \<b\> `\udb40\udc41
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolX12346789x12346789x12346789x12346789x12346789x12346789x1 {
    #[serde(rename = "")]
    pub unnamed: Vec<Option<String>>,
    #[serde(rename = "1st")]
    pub n1st: ToolX12346789x12346789x12346789x12346789x12346789x12346789x12,
    #[serde(rename = "a b")]
    pub a_b: f64,
    #[serde(rename = "a-b")]
    pub a_b_2: u64,
    /// Any JSON value: its schema has `oneOf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub either: Option<Value>,
    /// Any JSON value: its schema refers to something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<ToolX12346789x12346789x12346789x12346789x12346789x12346789x13>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Map<String, Value>>,
    #[serde(rename = "größe")]
    pub gr_e: ToolX12346789x12346789x12346789x12346789x12346789x12346789x14,
    /// Any JSON value: its type is string or integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<BTreeMap<String, i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maybe: Option<ToolX12346789x12346789x12346789x12346789x12346789x12346789x15>,
    #[serde(
        rename = "member_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x12:
        Option<Vec<ToolX12346789x12346789x12346789x12346789x12346789x12346789x16>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<ToolX12346789x12346789x12346789x12346789x12346789x12346789x12>,
    /// Any JSON value: its values are not all strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Value>,
    /// Any JSON value: its schema has `patternProperties`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patterns: Option<Value>,
    #[serde(rename = "self")]
    pub self_: bool,
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    ///
    /// Default: `"x\u200b"`.
    #[serde(rename = "type")]
    pub type_: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolX12346789x12346789x12346789x12346789x12346789x12346789x12 {
    /// Any JSON value: its schema refers to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Value>,
    pub value: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolX12346789x12346789x12346789x12346789x12346789x12346789x13 {
    #[serde(rename = "yes")]
    Yes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolX12346789x12346789x12346789x12346789x12346789x12346789x14 {
    #[serde(rename = "")]
    Unnamed,
    #[serde(rename = "self")]
    SelfValue,
    #[serde(rename = "Self")]
    SelfValue2,
    #[serde(rename = "a b")]
    AB,
    #[serde(rename = "a-b")]
    AB2,
    #[serde(rename = "9")]
    N9,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolX12346789x12346789x12346789x12346789x12346789x12346789x15 {
    #[serde(rename = "on")]
    On,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolX12346789x12346789x12346789x12346789x12346789x12346789x16 {
    #[serde(
        rename = "inner_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x123: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecursiveArguments {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<RecursiveUnnamed>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecursiveUnnamed {
    /// Any JSON value: its schema refers to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StringResult {
    #[serde(rename = "Ok")]
    pub ok: Value,
}

/// Arguments of the prompt `fn`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FnPromptArguments {
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    #[serde(rename = "a\"b")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_b: Option<String>,
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    #[serde(rename = "crate")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crate_: Option<String>,
    /// \u202e*/ } fn main() {\r
    /// '''
    /// panic!()
    /// '''
    /// "\" #\[x\] \<b\> `\udb40\udc41
    #[serde(
        rename = "argument_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x: Option<String>,
}

/// Arguments of the prompt
/// `prompt_x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789x1234_6789`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptX12346789x12346789x12346789x12346789x12346789x12346789Arguments {
    pub a: String,
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
