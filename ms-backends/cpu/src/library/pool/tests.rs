//! Tests pooling against loops that follow the definitions of the ops.

use crate::library::EagerOp;
use ms_ir::Precision;
use ms_ir::data::{Array, Attrs, DType, Scalar};
use ms_ops::ops::{self, MaxPoolAttrs, OpDef};
use ms_x64::Isa;
use ms_x64::gemm::Arithmetic;
use ms_x64::threads;

/// A pseudo-random sequence, the same in each run.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }

    fn sum(&mut self) -> f32 {
        self.below(1 << 20) as f32 / 1e3 - 500.0
    }

    /// Returns elements with many ties; some modes have no NaN and no -0. NaNs differ in their bits.
    fn elements(&mut self, count: usize) -> Vec<f32> {
        let few = [0.0, -0.0, 1.5, -1.5, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY, f32::MIN];
        let mode = self.below(5);
        let mut element = || match (mode, self.below(24)) {
            (0 | 1, 0) => f32::from_bits(0x7fc0_0000 + self.below(1 << 20) as u32),
            (2, _) => f32::NEG_INFINITY,
            (_, 1..8) => self.below(1 << 20) as f32 / 1e3 - 500.0,
            (4, _) => few[self.below(few.len())] + 0.0,
            _ => few[self.below(few.len())],
        };
        (0..count).map(|_| element()).collect()
    }
}

/// An op, its operands, and the shape and the elements of its result.
type Case<'a> = (&'static OpDef, &'a [&'a Array], &'a [usize], &'a [f32]);

/// Windows along one axis.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
}

impl Axis {
    /// Returns an axis of which every window has an element, with an input of at most about `size`.
    fn new(numbers: &mut Numbers, size: usize) -> Self {
        loop {
            let most = if numbers.below(4) == 0 { 7 } else { 3 };
            let kernel = 1 + numbers.below(most);
            let stride = if numbers.below(2) == 0 { 2 } else { 1 + numbers.below(5) };
            let dilation = if numbers.below(3) == 0 { 1 + numbers.below(3) } else { 1 };
            let reach = (kernel - 1) * dilation + 1;
            let mut padding = || if numbers.below(2) == 0 { 0 } else { numbers.below(reach / 2 + 1) };
            let (before, after) = (padding(), padding());
            let it = Self { input: 1 + numbers.below(size), kernel, stride, dilation, before, after };
            let all = |it: Self| (0..it.output()).all(|window| it.elements(window).next().is_some());
            if it.input + before + after >= reach && all(it) {
                return it;
            }
        }
    }

    fn output(self) -> usize {
        (self.input + self.before + self.after - (self.kernel - 1) * self.dilation - 1) / self.stride + 1
    }

    /// Returns the elements of a window.
    fn elements(self, window: usize) -> impl Iterator<Item = usize> {
        let at = move |tap: usize| (window * self.stride + tap * self.dilation).checked_sub(self.before);
        (0..self.kernel).filter_map(at).filter(move |&it| it < self.input)
    }
}

/// Returns the indices of the elements of each window of a plane, both in row-major order.
fn windows(axes: &[Axis]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0]];
    for axis in axes {
        let longer = |indices: Vec<usize>, window: usize| {
            indices.into_iter().flat_map(|it| axis.elements(window).map(move |at| it * axis.input + at)).collect()
        };
        all = all.into_iter().flat_map(|it| (0..axis.output()).map(move |window| longer(it.clone(), window))).collect();
    }
    all
}

fn bits(of: &[f32]) -> Vec<u32> {
    of.iter().map(|it| it.to_bits()).collect()
}

fn check(numbers: &mut Numbers, planes: [usize; 2], axes: &[Axis]) {
    let list = |of: fn(&Axis) -> usize| axes.iter().map(of).collect::<Vec<_>>();
    let [kernel, stride, dilation, before, after] =
        [list(|it| it.kernel), list(|it| it.stride), list(|it| it.dilation), list(|it| it.before), list(|it| it.after)];
    let attrs: &Attrs = &MaxPoolAttrs::attrs(&*kernel, &*stride, &*dilation, &*before, &*after);
    let (input, output) =
        ([&planes[..], &list(|it| it.input)].concat(), [&planes[..], &list(|it| it.output())].concat());
    let windows = windows(axes);
    let (planes, len) = (planes.iter().product::<usize>(), axes.iter().map(|it| it.input).product::<usize>());
    let (x, h) = (numbers.elements(planes * len), numbers.elements(planes * len));
    let g: Vec<f32> = (0..planes * windows.len()).map(|_| numbers.sum()).collect();

    let [mut largest, mut grad, mut taken] = [vec![], vec![0.0; x.len()], vec![]];
    for (window, base) in (0..planes).flat_map(|plane| windows.iter().map(move |it| (it, plane * len))) {
        let (mut maximum, mut index) = (f32::NEG_INFINITY, base + window[0]);
        for at in window.iter().map(|it| base + it) {
            maximum = if x[at] > maximum || x[at].is_nan() { x[at] } else { maximum };
            index = if x[at] > x[index] || x[at].is_nan() && !x[index].is_nan() { at } else { index };
        }
        grad[index] += g[largest.len()];
        largest.push(maximum);
        taken.push(h[index]);
    }

    let [of_x, of_g, of_h] =
        [(&input, &x), (&output, &g), (&input, &h)].map(|(shape, it)| Array::from_slice(shape, it));
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        let what = format!("{planes} planes of {axes:?} on {isa}");
        let cases: [Case<'_>; 3] = [
            (&ops::MAX_POOL, &[&of_x], &output, &largest),
            (&ops::MAX_POOL_GRAD, &[&of_x, &of_g], &input, &grad),
            (&ops::MAX_POOL_TAKE, &[&of_x, &of_h], &output, &taken),
        ];
        for (def, inputs, shape, want) in cases {
            let to = Array::full(shape, Scalar::Float(9.0), DType::F32);
            let op = EagerOp::new(Arithmetic::new(isa, Precision::Strict), def.op(), attrs.clone());
            // SAFETY: the result has the type of the type rule, and only this call accesses it.
            unsafe { op.run(inputs, std::slice::from_ref(&to), &[]) }.expect("there is memory");
            let to = to.on_host().expect("the elements are readable");
            assert!(op.is_prepared(), "{} runs no native code", def.name());
            assert!(bits(to.as_slice().expect("it is f32")) == bits(want), "{} of {what}", def.name());
        }
    }
}

#[test]
fn windows_of_all_kinds() {
    let numbers = &mut Numbers(3);
    for round in 0..1500 {
        let rank = 1 + numbers.below(3);
        let sizes = [[9, 9, 70], [40, 40, 20], [5, 5, 5], [12, 12, 34]][round % 4];
        let axes: Vec<Axis> =
            (0..rank).map(|axis| Axis::new(numbers, sizes[axis + 3 - rank].min(300 / rank))).collect();
        let planes = [1 + numbers.below(3), 1 + numbers.below(20)];
        let elements: usize = axes.iter().map(|it| it.input).product();
        if elements * planes[1] < 20_000 {
            check(numbers, planes, &axes);
        }
    }
}

/// Covers planes with more elements than one batch, and windows of common models.
#[test]
fn windows_of_models() {
    let numbers = &mut Numbers(4);
    let all = |[input, kernel, stride, before]: [usize; 4]| Axis {
        input,
        kernel,
        stride,
        dilation: 1,
        before,
        after: before,
    };
    for axis in
        [[112, 3, 2, 1], [16, 3, 2, 1], [24, 2, 2, 0], [8, 2, 2, 0], [28, 13, 1, 6], [7, 7, 1, 0], [65, 3, 3, 1]]
    {
        check(numbers, [3, 17], &[all(axis); 2]);
        threads::serial(|| check(numbers, [1, 2], &[all(axis); 2]));
    }
}
