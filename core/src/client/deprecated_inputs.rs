//! Deprecated features that input requests use (ROOT-013, SAMP-010, SAMP-026).

use super::common::CommonState;
use crate::deprecation::DeprecatedFeature;
use crate::model::{IncludeContext, InputRequest};

/// Reports the deprecated features that an input request uses.
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn report_deprecated(common: &mut CommonState, request: &InputRequest<'_>) {
    match request {
        InputRequest::ListRoots(_) => common.report_deprecated(DeprecatedFeature::Roots),
        InputRequest::CreateMessage(params) => {
            common.report_deprecated(DeprecatedFeature::Sampling);
            if let Some(IncludeContext::ThisServer | IncludeContext::AllServers) = params.include_context {
                common.report_deprecated(DeprecatedFeature::IncludeContext);
            }
        }
        _ => {}
    }
}
