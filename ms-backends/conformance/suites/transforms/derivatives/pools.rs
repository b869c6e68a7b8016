//! Compares gradients of pooling over random windows with loops over the definition.

use super::random::next;
use ms::ops::PoolOptions;
use ms::prelude::*;
use ms::tensor::Ellipsis;

/// A pool over one or two axes.
#[derive(Clone, Debug)]
struct Pool {
    sizes: Vec<usize>,
    options: PoolOptions,
    /// Whether the pool takes the maximum. Otherwise it takes the mean.
    max: bool,
}

/// The outcome by the definition.
enum Want {
    Refused,
    /// The result, and the gradient of the sum of its products with 1, 2, 3 and so on.
    Values(Vec<f64>, Vec<f64>),
}

impl Pool {
    /// Creates the pool of a seed.
    fn of(seed: usize) -> Self {
        let state = &mut (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rank = 1 + next(state) % 2;
        let max = !next(state).is_multiple_of(3);
        let mut list =
            |below: usize, from: usize| -> Vec<usize> { (0..rank).map(|_| from + next(state) % below).collect() };
        let (sizes, kernel, stride) = (list(6, 1), list(3, 1), list(3, 1));
        let (padding, dilation) = (list(4, 0), if max { list(4, 1) } else { vec![1; rank] });
        let mut options = PoolOptions::new(rank, &kernel[..]).stride(&stride[..]).dilation(&dilation[..]);
        options = options
            .padding(&padding[..])
            .ceil_mode(next(state).is_multiple_of(3))
            .count_include_pad(next(state).is_multiple_of(2));
        Self { sizes, options, max }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        if self.max { ops::max_pool(x, &self.options) } else { ops::avg_pool(x, &self.options) }
    }

    fn gradient(&self, x: &Tensor) -> Tensor {
        let weighted = |x: &Tensor| {
            let y = self.apply(x);
            let weights = ops::reshape(ops::arange(y.numel()).cast(DType::F64) + 1.0, y.shape());
            (y * weights).sum(())
        };
        ms::grad(weighted)(x)
    }

    /// Returns, for each window along an axis, its elements and the number of taps that count. Returns `None` if the
    /// windows are refused.
    fn windows(&self, axis: usize) -> Option<Vec<(Vec<usize>, usize)>> {
        let at = |list: &[usize]| list[axis] as isize;
        let it = &self.options;
        let (size, kernel, stride) = (self.sizes[axis] as isize, at(&it.kernel), at(&it.stride));
        let (padding, dilation) = (at(&it.padding), at(&it.dilation));
        let reach = dilation * (kernel - 1) + 1;
        if padding > reach / 2 {
            return None;
        }
        // As in PyTorch, an axis that is shorter than a window can have one in ceil mode.
        let over = size + 2 * padding - reach + if it.ceil_mode { stride - 1 } else { 0 };
        let mut count = over.div_euclid(stride) + 1;
        if it.ceil_mode && (count - 1) * stride >= size + padding {
            count -= 1;
        }
        if count < 1 {
            return None;
        }
        let window = |number: isize| {
            let start = number * stride - padding;
            let taps = (0..kernel).map(|tap| start + tap * dilation);
            let inside: Vec<usize> = taps.clone().filter(|at| (0..size).contains(at)).map(|it| it as usize).collect();
            // A window that reaches over the end counts padded elements, and nothing beyond them.
            let counted =
                if it.count_include_pad { taps.filter(|&at| at < size + padding).count() } else { inside.len() };
            (!inside.is_empty()).then_some((inside, counted))
        };
        (0..count).map(window).collect()
    }

    fn want(&self, x: &[f64]) -> Want {
        let axes: Option<Vec<_>> = (0..self.sizes.len()).map(|it| self.windows(it)).collect();
        let Some(mut axes) = axes else { return Want::Refused };
        let width = *self.sizes.last().expect("there is an axis");
        if axes.len() == 1 {
            axes.insert(0, vec![(vec![0], 1)]);
        }
        let (mut values, mut gradient) = (Vec::new(), vec![0.0; x.len()]);
        for (lines, line_count) in &axes[0] {
            for (columns, column_count) in &axes[1] {
                let places: Vec<usize> =
                    lines.iter().flat_map(|line| columns.iter().map(move |column| line * width + column)).collect();
                let weight = (values.len() + 1) as f64;
                if self.max {
                    let best = places.iter().copied().reduce(|best, at| if x[at] > x[best] { at } else { best });
                    let best = best.expect("a window has an element");
                    values.push(x[best]);
                    gradient[best] += weight;
                } else {
                    let count = (line_count * column_count) as f64;
                    values.push(places.iter().map(|&at| x[at]).sum::<f64>() / count);
                    places.iter().for_each(|&at| gradient[at] += weight / count);
                }
            }
        }
        Want::Values(values, gradient)
    }
}

fn value(x: &Tensor, seed: &usize) -> Tensor {
    Pool::of(*seed).apply(x)
}

fn gradient(x: &Tensor, seed: &usize) -> Tensor {
    Pool::of(*seed).gradient(x)
}

/// Every pool is refused on all paths with one code, or has the value and the gradient of the definition.
#[test]
fn random_windows_are_refused_or_right() {
    let (mut refused, mut without, mut wrong) = (0, 0, Vec::new());
    for seed in 1..=1200 {
        let pool = Pool::of(seed);
        let numel = pool.sizes.iter().product();
        let state = &mut (seed as u64).wrapping_mul(0x2545_f491_4f6c_dd1d);
        let elements: Vec<f64> = (0..numel).map(|_| next(state) as f64 / (1u64 << 30) as f64 - 1.0).collect();
        let x = Tensor::from_slice([&[1, 1], &pool.sizes[..]].concat(), &elements);
        let want = pool.want(&elements);
        type Path<'a> = Box<dyn Fn() -> Tensor + 'a>;
        let paths: [(&str, bool, Path<'_>); 4] = [
            ("eager value", true, Box::new(|| value(&x, &seed))),
            ("eager gradient", false, Box::new(|| gradient(&x, &seed))),
            ("compiled value", true, Box::new(|| ms::jit(value)(&x, &seed))),
            ("compiled gradient", false, Box::new(|| ms::jit(gradient)(&x, &seed))),
        ];
        if matches!(want, Want::Refused) {
            let fits = |axis: usize| {
                let it = &pool.options;
                let reach = it.dilation[axis] * (it.kernel[axis] - 1) + 1;
                it.padding[axis] <= reach / 2 && pool.sizes[axis] + 2 * it.padding[axis] >= reach
            };
            refused += 1;
            without += usize::from((0..pool.sizes.len()).all(fits));
        }
        for (path, is_value, run) in paths {
            let got = ms::catch(|| run().to_vec::<f64>());
            let right = match (&want, &got) {
                (Want::Refused, Err(error)) => matches!(error.code(), ms::Code::Argument | ms::Code::Shape),
                (Want::Values(values, gradient), Ok(got)) => {
                    let want = if is_value { values } else { gradient };
                    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-9)
                }
                _ => false,
            };
            if !right {
                wrong.push(format!("{path} of {seed}, {pool:?}: {got:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), &wrong[..wrong.len().min(8)]);
    assert!(refused > 100 && without > 10, "{refused} refused, {without} for windows without an element");
}

#[jit(dims(x = [_, _, n]))]
fn symbolic(x: &Tensor) -> Tensor {
    ops::max_pool(x, &PoolOptions::new(1, 2).padding(1).dilation(2).stride(1))
}

#[jit(dims(x = [_, _, n]))]
fn symbolic_mean(x: &Tensor) -> Tensor {
    ops::avg_pool(x, &PoolOptions::new(1, 5))
}

/// Symbolic sizes are checked when their values are known.
#[test]
fn symbolic_sizes_are_checked_when_they_are_known() {
    let of = |f: fn(&Tensor) -> Tensor, n: usize| {
        let x = ops::reshape(ops::arange(n).cast(DType::F32), [1, 1, n]);
        ms::catch(|| (f(&x).to_vec::<f32>(), ms::grad(f)(&x).to_vec::<f32>())).map_err(|it| it.code())
    };
    assert_eq!(of(symbolic, 3), Ok((vec![1.0, 2.0, 1.0], vec![0.0, 2.0, 1.0])));
    assert_eq!(of(symbolic, 1), Err(ms::Code::Argument));
    assert_eq!(of(symbolic, 2), Ok((vec![1.0, 0.0], vec![1.0, 1.0])));
    assert_eq!(of(symbolic_mean, 5), Ok((vec![2.0], vec![0.2; 5])));
    assert_eq!(of(symbolic_mean, 1), Err(ms::Code::Shape));
}

/// Padding on one side only provides no element either.
#[test]
fn layers_refuse_windows_over_padding_alone() {
    let x = Tensor::ones([1, 1, 2]);
    let of = |f: &dyn Fn() -> Tensor| ms::catch(|| f().to_vec::<f32>()).map_err(|it| it.code());
    assert_eq!(of(&|| nn::MaxPool1d::new(2).padding([(0, 2)]).call(&x)), Err(ms::Code::Argument));
    assert_eq!(
        of(&|| nn::AvgPool1d::new(2).padding([(2, 0)]).count_include_pad(false).call(&x)),
        Err(ms::Code::Argument)
    );
    assert_eq!(of(&|| nn::MaxPool1d::new(2).padding([(0, 1)]).stride(1).call(&x)), Ok(vec![1.0, 1.0]));
    let one = Tensor::ones([1, 1, 1]);
    assert_eq!(of(&|| nn::MaxPool1d::new(2).padding(1).dilation(2).stride(1).call(&one)), Err(ms::Code::Argument));
    let empty = one.i((Ellipsis, ..0));
    assert!(of(&|| nn::AdaptiveMaxPool1d::new(1).call(&empty)).is_err());
    assert!(of(&|| nn::AdaptiveAvgPool1d::new(1).call(&empty)).is_err());
}
