//! Conversion of borrowed values to owned ones.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::map::Map;
use crate::raw::RawJson;
use crate::rpc::RequestId;

/// A value that can be converted to one that borrows nothing.
pub(crate) trait IntoStatic {
    type Owned;
    fn into_static(self) -> Self::Owned;
}

macro_rules! static_types {
    ($($type:ty)*) => {$(
        impl IntoStatic for $type {
            type Owned = Self;
            fn into_static(self) -> Self {
                self
            }
        }
    )*};
}
static_types!(String bool f64 i64 u64 RawJson RequestId);

impl IntoStatic for Cow<'_, str> {
    type Owned = Cow<'static, str>;
    fn into_static(self) -> Cow<'static, str> {
        Cow::Owned(self.into_owned())
    }
}

impl<T: IntoStatic> IntoStatic for Option<T> {
    type Owned = Option<T::Owned>;
    fn into_static(self) -> Self::Owned {
        self.map(T::into_static)
    }
}

impl<T: IntoStatic> IntoStatic for Vec<T> {
    type Owned = Vec<T::Owned>;
    fn into_static(self) -> Self::Owned {
        self.into_iter().map(T::into_static).collect()
    }
}

impl<T: IntoStatic> IntoStatic for Box<T> {
    type Owned = Box<T::Owned>;
    fn into_static(self) -> Self::Owned {
        Box::new((*self).into_static())
    }
}

impl<V: IntoStatic> IntoStatic for Map<V> {
    type Owned = Map<V::Owned>;
    fn into_static(self) -> Self::Owned {
        self.map(V::into_static)
    }
}
