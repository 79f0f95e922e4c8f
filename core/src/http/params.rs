//! stub
#[derive(Debug, Default)]
pub struct Params;
impl Params { pub fn is_empty(&self) -> bool { true } }
pub fn scan(_schema: &[u8]) -> Result<Params, &'static str> { Ok(Params) }
pub fn values(_arguments: &[u8], _p: &Params, _each: impl FnMut(&str, &[u8])) {}
