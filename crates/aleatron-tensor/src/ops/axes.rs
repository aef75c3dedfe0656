//! The axes of an operation, as callers write them.

use std::borrow::Cow;
use std::ops::Deref;

/// One axis or several: `0`, `-1`, `[0, 2]`, or a slice. Negative axes count from the end.
///
/// ```
/// use aleatron_tensor::Axes;
/// assert_eq!(*Axes::from(-1), [-1]);
/// assert_eq!(*Axes::from([0, 2]), [0, 2]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes<'a>(Cow<'a, [isize]>);

impl Deref for Axes<'_> {
    type Target = [isize];

    fn deref(&self) -> &[isize] {
        &self.0
    }
}

/// Converts an axis; one that does not fit becomes an axis out of range.
fn axis<T: TryInto<isize>>(axis: T) -> isize {
    axis.try_into().unwrap_or(isize::MAX)
}

macro_rules! axes_from {
    ($($type:ty)*) => {$(
        impl From<$type> for Axes<'_> {
            fn from(value: $type) -> Self {
                Self(Cow::Owned(vec![axis(value)]))
            }
        }

        impl<const N: usize> From<[$type; N]> for Axes<'_> {
            fn from(values: [$type; N]) -> Self {
                Self(Cow::Owned(values.into_iter().map(axis).collect()))
            }
        }

        impl<const N: usize> From<&[$type; N]> for Axes<'_> {
            fn from(values: &[$type; N]) -> Self {
                Self::from(*values)
            }
        }
    )*};
}

axes_from!(i32 isize usize);

impl<'a> From<&'a [isize]> for Axes<'a> {
    fn from(axes: &'a [isize]) -> Self {
        Self(Cow::Borrowed(axes))
    }
}

impl<'a> From<&'a Vec<isize>> for Axes<'a> {
    fn from(axes: &'a Vec<isize>) -> Self {
        Self(Cow::Borrowed(axes))
    }
}
