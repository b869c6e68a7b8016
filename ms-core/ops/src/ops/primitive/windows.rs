//! `windows`: the elements under sliding windows, as a view (im2col without a copy).

use super::slice::SLICE;
use super::slice_update::update;
use super::window::{MAX_DILATION, Window};
use crate::ops::{
    Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, SliceAttrs, TransformRules, full_of, reshape,
};
use crate::tensor::{AttrRange, Attrs, Dim, Dims, Layout, OpInfo, Shape, Strides, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`WINDOWS`]: the first axis, and for each axis from there on the kernel size, the stride and
    /// the dilation.
    struct WindowsAttrs {
        axis: usize,
        kernel: [i64] where 0..=AttrRange::FACTOR,
        stride: [i64] where 0..=AttrRange::FACTOR,
        dilation: [i64] where 0..=MAX_DILATION,
    }
}

/// Views the elements under windows along adjacent axes. These axes index the windows, and new axes at the end index
/// the taps. Windows may overlap.
pub static WINDOWS: OpDef = OpDef {
    info: OpInfo { number: 361, name: "windows", attrs: WindowsAttrs::DECLARED },
    infer: |attrs, inputs| Ok(smallvec![Type::new(inputs[0].dtype, dims(attrs, &inputs[0].dims)?)]),
    eval: |attrs, inputs| {
        Ok(smallvec![inputs[0].with_layout(view(attrs, inputs[0].layout())).on_host()?.to_contiguous()])
    },
    effects: Effects::NONE,
    lowering: Lowering::View(|attrs, layout| Some(view(attrs, layout))),
    samples: || {
        let of = |x: &[usize], axis: usize, kernel: &[usize], stride: &[usize], dilation: &[usize]| {
            Sample::new([SampleInput::f32(x, -2.0, 2.0)]).attrs(WindowsAttrs::attrs(axis, kernel, stride, dilation))
        };
        vec![
            of(&[6, 7], 0, &[2, 3], &[1, 2], &[2, 1]),
            of(&[2, 5, 3], 1, &[3], &[1], &[1]),
            of(&[4], 0, &[1], &[3], &[1]),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let at = WindowsAttrs::of(it.attrs);
            let x = &it.inputs[0];
            let (axis, kernel) = (at.axis(), at.kernel().sizes());
            let folded =
                col2im(it.cotangent(), axis, x.rank(), &kernel, &at.window(), &x.dims()[axis..][..kernel.len()]);
            smallvec![Some(folded)]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), it.inputs)),
        body: None,
    },
};

impl WindowsAttrs<'_> {
    /// Returns the windows, which have no padding.
    fn window(self) -> Window {
        let (stride, dilation) = (self.stride().sizes(), self.dilation().sizes());
        Window { stride, dilation, ..Window::new(self.kernel().as_slice().len()) }
    }
}

/// Returns the dimensions of the view of an array with the dimensions `from`.
fn dims(attrs: &Attrs, from: &[Dim]) -> Result<Dims> {
    let at = WindowsAttrs::of(attrs);
    let (axis, kernel) = (at.axis(), at.kernel().sizes());
    let behind = axis + kernel.len();
    if behind > from.len() {
        let message = format!("shape {from:?} does not have {} axes from {axis} on", kernel.len());
        return Err(Error::new(Code::Shape, message));
    }
    let counts = at.window().counts(&from[axis..behind], &kernel)?;
    let taps = kernel.iter().map(|&it| Dim::new(it));
    Ok(from[..axis].iter().copied().chain(counts).chain(from[behind..].iter().copied()).chain(taps).collect())
}

fn view(attrs: &Attrs, from: &Layout) -> Layout {
    let at = WindowsAttrs::of(attrs);
    let (axis, kernel) = (at.axis(), at.kernel().sizes());
    let (window, mut shape, mut strides) =
        (at.window(), Shape::from_slice(from.shape()), Strides::from_slice(from.strides()));
    for (i, &taps) in kernel.iter().enumerate() {
        let (size, step) = (from.shape()[axis + i], from.strides()[axis + i]);
        shape[axis + i] = (size - (taps - 1) * window.dilation[i] - 1) / window.stride[i] + 1;
        strides[axis + i] = step * window.stride[i] as isize;
        shape.push(taps);
        strides.push(step * window.dilation[i] as isize);
    }
    Layout::new(shape, strides, from.offset())
}

/// Views `x` under windows along the axes from `axis` on; the padding of `window` is ignored.
#[track_caller]
pub(in crate::ops) fn windows(x: &Tensor, axis: usize, kernel: &[usize], window: &Window) -> Tensor {
    apply1(WINDOWS.op(), &WindowsAttrs::attrs(axis, kernel, &*window.stride, &*window.dilation), &[x])
}

/// Sums the elements under the windows that contain a position, for all positions along axes of `sizes` (col2im).
///
/// `x` has the windows along the axes from `axis` on, and the taps along the axes from `taps` on, which are reduced.
/// Starting from +0, taps are added one by one in row-major order; taps on padding are skipped.
#[track_caller]
pub(in crate::ops) fn col2im(
    x: &Tensor,
    axis: usize,
    taps: usize,
    kernel: &[usize],
    window: &Window,
    sizes: &[Dim],
) -> Tensor {
    let Window { stride, dilation, before, after } = window;
    let (rank, spatial) = (x.rank(), kernel.len());
    let zeros = vec![0i64; rank];
    let ones = vec![1i64; rank];
    // Windows are placed at their stride, with zeros between and around them.
    let (mut spread, mut starts, mut steps) = (x.dims(), zeros.clone(), ones.clone());
    let lead: Shape = (0..spatial).map(|it| (dilation[it] * (kernel[it] - 1)).saturating_sub(before[it])).collect();
    for i in 0..spatial {
        spread[axis + i] = sizes[i] + before[i] + after[i] + lead[i];
        (starts[axis + i], steps[axis + i]) = (lead[i] as i64, stride[i] as i64);
    }
    let spread = match spread == x.dims() {
        true => x.clone(),
        false => update(&full_of(spread, 0.0, x.dtype()), x, &starts[..], &steps),
    };
    let kept = |it: usize| !(taps..taps + spatial).contains(&it);
    let mut part: Dims = spread.dims();
    part[axis..axis + spatial].copy_from_slice(sizes);
    let shape: Dims = (0..rank).filter(|&it| kept(it)).map(|it| part[it]).collect();
    part[taps..taps + spatial].fill(Dim::new(1));
    let mut sum: Option<Tensor> = None;
    for number in 0..kernel.iter().product::<usize>() {
        let (mut starts, mut rest) = (zeros.clone(), number);
        for i in (0..spatial).rev() {
            let tap = rest % kernel[i];
            rest /= kernel[i];
            starts[taps + i] = tap as i64;
            starts[axis + i] = (before[i] + lead[i] - tap * dilation[i]) as i64;
        }
        let term = reshape(apply1(SLICE.op(), &SliceAttrs::attrs(&*starts, &*part, &*ones), &[&spread]), &*shape);
        sum = Some(match sum {
            None => &term + 0.0,
            Some(sum) => &sum + &term,
        });
    }
    sum.expect("a window has a tap")
}
