//! From values that borrow to values that do not.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::map::Map;
use crate::raw::RawJson;
use crate::rpc::RequestId;

/// Something that can stop borrowing
pub(crate) trait Own {
    type Owned;
    fn own(self) -> Self::Owned;
}

macro_rules! owned {
    ($($type:ty)*) => {$(
        impl Own for $type {
            type Owned = Self;
            fn own(self) -> Self {
                self
            }
        }
    )*};
}
owned!(String bool f64 i64 u64 RawJson RequestId);

impl Own for Cow<'_, str> {
    type Owned = Cow<'static, str>;
    fn own(self) -> Cow<'static, str> {
        Cow::Owned(self.into_owned())
    }
}

impl<T: Own> Own for Option<T> {
    type Owned = Option<T::Owned>;
    fn own(self) -> Self::Owned {
        self.map(T::own)
    }
}

impl<T: Own> Own for Vec<T> {
    type Owned = Vec<T::Owned>;
    fn own(self) -> Self::Owned {
        self.into_iter().map(T::own).collect()
    }
}

impl<T: Own> Own for Box<T> {
    type Owned = Box<T::Owned>;
    fn own(self) -> Self::Owned {
        Box::new((*self).own())
    }
}

impl<V: Own> Own for Map<V> {
    type Owned = Map<V::Owned>;
    fn own(self) -> Self::Owned {
        self.map(V::own)
    }
}
