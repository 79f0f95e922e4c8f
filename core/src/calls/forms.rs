//! Parameters that wait for the peer's revision to be known.

use alloc::vec::Vec;

use bytes::Bytes;
use serde::Serialize;

use super::ours::check_reserved;
use crate::error::UseError;
use crate::json::{EncodeError, Serializer};
use crate::shape;
use crate::version::{Version, VersionSet};

/// A parameter object as JSON, for a peer whose revision is not known yet
///
/// Nearly all parameters look the same in every revision, so there is nearly always one form.
#[derive(Debug)]
pub(crate) struct Forms(Vec<(VersionSet, Result<Bytes, UseError>)>);

impl Forms {
    /// Written for each of `versions`; refused when it cannot be written at all
    pub(crate) fn of<T: Serialize + ?Sized>(params: &T, versions: VersionSet) -> Result<Self, UseError> {
        let mut forms: Vec<(VersionSet, Result<Bytes, UseError>)> = Vec::new();
        for version in versions.iter() {
            let mut body = Vec::new();
            let form = match Serializer::object(&mut body, params, shape::table(version)) {
                Ok(noted) => {
                    check_reserved(noted)?;
                    Ok(Bytes::from(body))
                }
                Err(error @ EncodeError::NotInVersion { .. }) => Err(error.into()),
                Err(error) => return Err(error.into()),
            };
            match forms.iter_mut().find(|(_, known)| *known == form) {
                Some((with, _)) => *with = with.with(version),
                None => forms.push((VersionSet::only(version), form)),
            }
        }
        match forms.first() {
            // In no version at all.
            Some((_, Err(error))) if forms.iter().all(|(_, form)| form.is_err()) => Err(error.clone()),
            _ => Ok(Self(forms)),
        }
    }

    /// The object for `version`, or why there is none
    pub(crate) fn in_version(&self, version: Version) -> Result<&Bytes, UseError> {
        let form = self.0.iter().find(|(versions, _)| versions.contains(version));
        form.map_or(Err(UseError::NotReady), |(_, form)| form.as_ref().map_err(Clone::clone))
    }

    /// Bytes that are charged for keeping it
    pub(crate) fn cost(&self) -> usize {
        self.0.iter().map(|(_, form)| form.as_ref().map_or(0, Bytes::len)).sum()
    }
}
