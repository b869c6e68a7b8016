//! The attributes of convolutions, which their three ops share.

use super::{MAX_DILATION, Window};
use crate::ops::Extent;
use crate::tensor::{AttrRange, Attrs, Dim};

attributes! {
    /// The attributes of [`CONV`](crate::ops::CONV); the attributes of its gradients begin with them.
    pub struct ConvAttrs {
        stride: [i64] where 0..=AttrRange::FACTOR,
        dilation: [i64] where 0..=MAX_DILATION,
        before: [i64] where 0..=AttrRange::FACTOR,
        after: [i64] where 0..=AttrRange::FACTOR,
        groups: usize,
    }
}

attributes! {
    /// The attributes of the gradients of [`CONV`](crate::ops::CONV), which also have the spatial sizes of the result.
    pub(in crate::ops) struct ConvGradAttrs {
        stride: [i64] where 0..=AttrRange::FACTOR,
        dilation: [i64] where 0..=MAX_DILATION,
        before: [i64] where 0..=AttrRange::FACTOR,
        after: [i64] where 0..=AttrRange::FACTOR,
        groups: usize,
        sizes: [Extent] where 0..=i64::MAX,
    }
}

/// Creates the attributes of a convolution, or of a gradient with the spatial sizes of its result.
pub(in crate::ops) fn conv_attrs(window: &Window, groups: usize, sizes: &[Dim]) -> Attrs {
    let Window { stride, dilation, before, after } = window;
    match sizes {
        [] => ConvAttrs::attrs(&**stride, &**dilation, &**before, &**after, groups),
        sizes => ConvGradAttrs::attrs(&**stride, &**dilation, &**before, &**after, groups, sizes),
    }
}

impl ConvAttrs<'_> {
    /// Returns the windows.
    pub fn window(self) -> Window {
        Window {
            stride: self.stride().sizes(),
            dilation: self.dilation().sizes(),
            before: self.before().sizes(),
            after: self.after().sizes(),
        }
    }
}

/// Converts the attributes of one of the three ops to attributes of another.
pub(in crate::ops) fn with_sizes(attrs: &Attrs, sizes: &[Dim]) -> Attrs {
    with_groups(attrs, ConvAttrs::of(attrs).groups(), sizes)
}

/// Converts like [`with_sizes`], with another number of groups.
pub(in crate::ops) fn with_groups(attrs: &Attrs, groups: usize, sizes: &[Dim]) -> Attrs {
    conv_attrs(&ConvAttrs::of(attrs).window(), groups, sizes)
}
