// A server that answers with the result of its previous call: the mistake that the page plants.
//
// The page shows these lines before a test that it has found, so they need nothing around them.
struct Planted {
    marks: mcp_sim::Marks,
    previous: Option<mcp_proto::RawJson>,
}

impl mcp_sim::Application for Planted {
    fn client(&self) -> mcp_proto::client::Config {
        self.marks.client()
    }

    fn server(&self) -> mcp_proto::server::Config {
        self.marks.server()
    }

    fn request(&mut self, mark: &str, draws: &mut mcp_sim::Draws) -> (String, mcp_proto::RawJson) {
        self.marks.request(mark, draws)
    }

    fn answer(&mut self, call: &mcp_proto::server::Call) -> Result<mcp_proto::RawJson, mcp_proto::RpcError> {
        let result = self.marks.answer(call)?;
        Ok(self.previous.replace(result.clone()).unwrap_or(result))
    }

    fn check(&self, mark: &str, result: &mcp_proto::RawJson) -> Result<(), String> {
        self.marks.check(mark, result)
    }
}
