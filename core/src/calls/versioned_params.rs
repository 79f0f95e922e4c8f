//! Parameters of calls that are queued until the revision is known.

use alloc::vec::Vec;

use bytes::Bytes;
use serde::Serialize;

use super::outbound_requests::check_reserved;
use crate::error::UseError;
use crate::json::{EncodeError, Serializer};
use crate::shape;
use crate::version::{Version, VersionSet};

/// A parameter object as JSON, in the form of each possible revision.
///
/// Most parameters have the same form in every revision, so there is usually one entry.
#[derive(Debug)]
pub(crate) struct VersionedParams(Vec<(VersionSet, Result<Bytes, UseError>)>);

impl VersionedParams {
    /// Encodes `params` for each of `versions`.
    ///
    /// # Errors
    ///
    /// An encoding error if no revision has a form for it, or [`UseError::ReservedKey`].
    pub(crate) fn encode<T: Serialize + ?Sized>(params: &T, versions: VersionSet) -> Result<Self, UseError> {
        let mut forms: Vec<(VersionSet, Result<Bytes, UseError>)> = Vec::new();
        for version in versions.iter() {
            let mut body = Vec::new();
            let form = match Serializer::object(&mut body, params, shape::table(version)) {
                Ok(members) => {
                    check_reserved(members)?;
                    Ok(Bytes::from(body))
                }
                Err(error @ EncodeError::NotInVersion { .. }) => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            match forms.iter_mut().find(|(_, known)| *known == form) {
                Some((versions, _)) => *versions = versions.with(version),
                None => forms.push((VersionSet::only(version), form)),
            }
        }
        match forms.first() {
            // No revision has a form for it.
            Some((_, Err(error))) if forms.iter().all(|(_, form)| form.is_err()) => Err(error.clone()),
            _ => Ok(Self(forms)),
        }
    }

    /// Wraps parameters that were encoded for `version`.
    pub(crate) fn from_encoded(version: Version, params: Bytes) -> Self {
        Self(alloc::vec![(VersionSet::only(version), Ok(params))])
    }

    /// Returns the object for `version`.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] if `version` was not encoded, or the reason why it has no form.
    pub(crate) fn for_version(&self, version: Version) -> Result<&Bytes, UseError> {
        let form = self.0.iter().find(|(versions, _)| versions.contains(version));
        form.map_or(Err(UseError::NotReady), |(_, form)| form.as_ref().map_err(Clone::clone))
    }

    /// Returns the bytes that are charged for keeping it.
    pub(crate) fn cost(&self) -> usize {
        self.0.iter().map(|(_, form)| form.as_ref().map_or(0, Bytes::len)).sum()
    }
}
