//! Max pooling and its gradient.

use super::elements;
use crate::interp::number::Number;
use crate::isa::Isa;
use crate::product::Shared;
use crate::threads;
use ms_core::error::Result;
use ms_core::ops::{MaxPoolAttrs, Run, WindowAxis, Windows};
use ms_core::tensor::{Attrs, Element, HostArray, try_filled};
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::ops::{AddAssign, Range};

/// Maximum number of chunks of a task.
const MAX_CHUNKS: usize = 16;

/// Minimum number of planes of a chunk.
const MIN_PLANES: usize = 8;

/// The windows over some planes, and their sizes.
struct Pool {
    planes: usize,
    windows: Windows,
}

impl Pool {
    /// From the shapes of the planes and of their windows.
    fn new(attrs: &Attrs, input: &[usize], output: &[usize]) -> Self {
        let at = MaxPoolAttrs::of(attrs);
        let kernel = at.kernel().sizes();
        let lead = output.len() - kernel.len();
        let windows = Windows::new(&at.window(), &input[lead..], &kernel, &output[lead..]);
        Self { planes: output[..lead].iter().product(), windows }
    }

    /// Runs loops on all planes, compiled for an instruction set.
    fn run(&self, isa: Isa, loops: &impl Loops) -> Result<()> {
        let nanos = self.planes * self.windows.output_len() * self.windows.taps() / 2;
        let per_chunk = self.planes.div_ceil(MAX_CHUNKS).max(MIN_PLANES);
        threads::try_for_each(self.planes.div_ceil(per_chunk), nanos, |chunk| {
            compiled(isa, loops, chunk * per_chunk..((chunk + 1) * per_chunk).min(self.planes))
        })
    }
}

/// The largest elements of the windows of `x`.
pub fn max<T: Number + Element>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let pool = &Pool::new(attrs, inputs[0].shape(), shape);
    let (x, out) = (elements::<T>(&inputs[0]), Shared::new(out.as_mut_ptr()));
    match Pairs::<T, false>::of(pool, x, &[], &out) {
        Some(pairs) => pool.run(isa, &pairs),
        None => pool.run(isa, &Largest { pool, runs: pool.windows.runs(), x, out: &out }),
    }
}

/// The loops of [`max()`].
struct Largest<'a, T> {
    pool: &'a Pool,
    runs: Vec<Run>,
    x: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element> Loops for Largest<'_, T> {
    #[inline(always)]
    fn run(&self, planes: Range<usize>) -> Result<()> {
        let (windows, step) = (&self.pool.windows, self.pool.windows.step());
        for plane in planes {
            let from = &self.x[plane * windows.input_len()..][..windows.input_len()];
            let len = windows.output_len();
            // SAFETY: the planes of the result are disjoint.
            let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
            to.fill(T::LOWEST);
            for run in &self.runs {
                let to = to[run.window..][..run.len].iter_mut();
                with_elements(to, &from[run.element..], step, |to, value| {
                    *to = if (value > *to) | is_nan(value) { value } else { *to };
                });
            }
        }
        Ok(())
    }
}

/// The gradient of [`max()`] for its input `x`, from inputs `x` and `g`. Nan is larger than all other
/// elements, and the gradient is that of the first of equal ones.
pub fn max_grad<T: Number + Element + AddAssign>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let pool = &Pool::new(attrs, shape, inputs[1].shape());
    let out = Shared::new(out.as_mut_ptr());
    if let Some(pairs) = Pairs::<T, true>::of(pool, x, g, &out) {
        return pool.run(isa, &pairs);
    }
    for_each_largest(isa, pool, x, |plane, places| {
        let len = pool.windows.input_len();
        // SAFETY: the planes of the result are disjoint.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        to.fill(T::ZERO);
        let g = &g[plane * pool.windows.output_len()..];
        for (&at, &g) in places.iter().zip(g) {
            to[at as usize] += g;
        }
    })
}

/// The elements of `h` at the positions of the largest elements of the windows of `x`, the inputs; see [`max_grad`].
pub fn max_take<T: Number + Element>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, h) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let pool = &Pool::new(attrs, inputs[0].shape(), shape);
    let out = Shared::new(out.as_mut_ptr());
    for_each_largest(isa, pool, x, |plane, places| {
        let h = &h[plane * pool.windows.input_len()..];
        let len = pool.windows.output_len();
        // SAFETY: the planes of the result are disjoint.
        let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(plane * len), len) };
        to.iter_mut().zip(places).for_each(|(to, &at)| *to = h[at as usize]);
    })
}

/// Calls `f` with each plane and the positions in it of the largest elements of its windows.
fn for_each_largest<T: Number + Element>(
    isa: Isa,
    pool: &Pool,
    x: &[T],
    f: impl Fn(usize, &[u32]) + Sync,
) -> Result<()> {
    let (windows, runs) = (&pool.windows, pool.windows.runs());
    assert!(u32::try_from(windows.input_len()).is_ok(), "a plane has less than 2^32 elements");
    let mut first = try_filled(0, windows.output_len())?;
    runs.iter().rev().for_each(|run| first[run.window..][..run.len].fill(before(run, windows.step())));
    pool.run(isa, &Places { pool, runs, first, x, f })
}

/// The position of a run's first element minus that of its window, which is the same for all of them. Modulo 2^32, as
/// are places until all runs are done.
fn before(run: &Run, step: usize) -> u32 {
    (run.element as u32).wrapping_sub((run.window * step) as u32)
}

/// The loops of [`for_each_largest`].
struct Places<'a, T, F> {
    pool: &'a Pool,
    runs: Vec<Run>,
    /// [`before`] for the first tap of each window that is on an element.
    first: Vec<u32>,
    x: &'a [T],
    f: F,
}

impl<T: Number + Element, F: Fn(usize, &[u32]) + Sync> Loops for Places<'_, T, F> {
    #[inline(always)]
    fn run(&self, planes: Range<usize>) -> Result<()> {
        let (windows, step) = (&self.pool.windows, self.pool.windows.step());
        let mut largest = try_filled(T::LOWEST, windows.output_len())?;
        let mut places = try_filled(0u32, self.first.len())?;
        for plane in planes {
            let len = windows.input_len();
            let from = &self.x[plane * len..][..len];
            largest.fill(T::LOWEST);
            places.copy_from_slice(&self.first);
            for run in &self.runs {
                let here = run.window..run.window + run.len;
                let best = largest[here.clone()].iter_mut().zip(&mut places[here]);
                let before = before(run, step);
                with_elements(best, &from[run.element..], step, |(top, place), value| {
                    // A number that is larger, or the first nan.
                    let above = (value > *top) | (is_nan(value) & !is_nan(*top));
                    *top = select_unpredictable(above, value, *top);
                    *place = select_unpredictable(above, before, *place);
                });
            }
            for (window, place) in places.iter_mut().enumerate() {
                *place = place.wrapping_add((window * step) as u32);
            }
            (self.f)(plane, &places);
        }
        Ok(())
    }
}

/// The loops of [`max()`], or of its gradient, for windows that are two elements wide, do not overlap, and have no
/// padding: a window's place is the number of its tap.
struct Pairs<'a, T, const GRADIENT: bool> {
    windows: &'a Windows,
    /// Where the rows of a window start, relative to its first element.
    rows: SmallVec<[usize; 4]>,
    x: &'a [T],
    g: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<'a, T: Number + Element, const GRADIENT: bool> Pairs<'a, T, GRADIENT> {
    fn of(pool: &'a Pool, x: &'a [T], g: &'a [T], out: &'a Shared<*mut T>) -> Option<Self> {
        let windows = &pool.windows;
        let axes @ [a, b, c] = windows.axes();
        let is_apart = |it: &WindowAxis| {
            let is_dense = it.dilation == 1 && it.before == 0 && it.kernel <= it.stride;
            is_dense && it.output.saturating_sub(1) * it.stride + it.kernel <= it.input
        };
        let is_all = axes.iter().map(|it| it.output).product::<usize>() == windows.output_len();
        if (c.kernel, c.stride) != (2, 2) || !is_all || !axes.iter().all(is_apart) {
            return None;
        }
        let row = |i: usize, j: usize| (i * b.input + j) * c.input;
        let rows = (0..a.kernel).flat_map(|i| (0..b.kernel).map(move |j| row(i, j))).collect();
        Some(Self { windows, rows, x, g, out })
    }

    /// Adjacent windows from the one with this number, whose first element is the given one; returns how many.
    #[inline(always)]
    fn some<const COUNT: usize>(&self, from: &[T], g: &[T], to: &mut [T], (window, element): (usize, usize)) -> usize {
        let (mut tops, mut places) = ([T::LOWEST; COUNT], [0; COUNT]);
        for (number, row) in self.rows.iter().enumerate() {
            let pairs = &from[element + row..][..2 * COUNT].as_chunks::<2>().0[..COUNT];
            for side in 0..2 {
                let tap = (2 * number + side) as u32;
                for (pair, (top, place)) in pairs.iter().zip(tops.iter_mut().zip(&mut places)) {
                    let value = pair[side];
                    // A number that is larger, or a nan: for the gradient, the first one.
                    let above = (value > *top) | (is_nan(value) & !(GRADIENT & is_nan(*top)));
                    *top = select_unpredictable(above, value, *top);
                    *place = select_unpredictable(above, tap, *place);
                }
            }
        }
        if !GRADIENT {
            to[window..][..COUNT].copy_from_slice(&tops);
            return COUNT;
        }
        let mut sums = [T::ZERO; COUNT];
        sums.iter_mut().zip(&g[window..][..COUNT]).for_each(|(sum, &g)| *sum = sum.add(g));
        for (number, row) in self.rows.iter().enumerate() {
            let pairs = &mut to[element + row..][..2 * COUNT].as_chunks_mut::<2>().0[..COUNT];
            for (pair, (&sum, &place)) in pairs.iter_mut().zip(sums.iter().zip(&places)) {
                *pair = [0, 1].map(|side| if place == 2 * number as u32 + side { sum } else { T::ZERO });
            }
        }
        COUNT
    }
}

impl<T: Number + Element, const GRADIENT: bool> Loops for Pairs<'_, T, GRADIENT> {
    #[inline(always)]
    fn run(&self, planes: Range<usize>) -> Result<()> {
        let [a, b, c] = self.windows.axes();
        let [input, output] = [self.windows.input_len(), self.windows.output_len()];
        for plane in planes {
            let from = &self.x[plane * input..][..input];
            let g = if GRADIENT { &self.g[plane * output..][..output] } else { &[] };
            let len = if GRADIENT { input } else { output };
            // SAFETY: the planes of the result are disjoint.
            let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
            if GRADIENT {
                to.fill(T::ZERO);
            }
            for (i, j) in (0..a.output).flat_map(|i| (0..b.output).map(move |j| (i, j))) {
                let (window, element) =
                    ((i * b.output + j) * c.output, (i * a.stride * b.input + j * b.stride) * c.input);
                let mut at = 0;
                while at < c.output {
                    let here = (window + at, element + 2 * at);
                    at += match c.output - at {
                        16.. => self.some::<16>(from, g, to, here),
                        8.. => self.some::<8>(from, g, to, here),
                        4.. => self.some::<4>(from, g, to, here),
                        _ => self.some::<1>(from, g, to, here),
                    };
                }
            }
        }
        Ok(())
    }
}

/// Calls `f` with each of the windows of a run and the element that it has: those of `from`, `step` elements apart.
/// Constant steps are loops of vectors.
#[inline(always)]
fn with_elements<W, T: Copy>(windows: impl ExactSizeIterator<Item = W>, from: &[T], step: usize, f: impl Fn(W, T)) {
    let count = windows.len();
    match step {
        1 => windows.zip(from).for_each(|(to, &value)| f(to, value)),
        2 if from.len() >= 2 * count => {
            let pairs = &from.as_chunks::<2>().0[..count];
            windows.zip(pairs).for_each(|(to, pair)| f(to, pair[0]));
        }
        _ => windows.zip(from.iter().step_by(step)).for_each(|(to, &value)| f(to, value)),
    }
}

fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

/// Loops over planes, which are inlined to be compiled for each instruction set.
trait Loops: Sync {
    /// Runs them on these planes.
    fn run(&self, planes: Range<usize>) -> Result<()>;
}

/// Runs loops that are compiled for an instruction set, which this processor has.
fn compiled(isa: Isa, loops: &impl Loops, planes: Range<usize>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn avx512(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run(planes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run(planes)
    }

    match isa {
        // SAFETY: the processor has the instruction set.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(loops, planes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(loops, planes) },
        _ => loops.run(planes),
    }
}
