//~ expected struct `Vec<PromptMessage<'_>>`
//~ `PromptMessage<'static>`, not `PromptMessage`

use mcp_smol::mcp_proto::model::{Prompt, PromptMessage};
use mcp_smol::{Cx, Router};

async fn trip(_: &mut Cx, (): ()) -> Vec<PromptMessage> {
    vec![PromptMessage::user("Plan a trip.")]
}

fn main() {
    let mut router = Router::new("sailor", "1.0");
    router.prompt(Prompt::new("trip"), trip);
}
