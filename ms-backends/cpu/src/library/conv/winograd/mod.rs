//! Winograd convolution F(2x2, 3x3) for 3x3 kernels with stride 1.
//!
//! The transform matrices are from A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015
//! (arXiv 1509.09308), section 4.1.
//!
//! The result is computed in tiles of two by two output positions, called squares, from overlapping tiles of four by
//! four elements, called patches. Patches and filters are transformed to sixteen components each ([`transforms`]). Each
//! component's products of patches and filters are summed over input channels, in accumulation chains. The sixteen sums
//! of a square are transformed to its output positions. So a square takes 16 products for each pair of channels instead
//! of 36.
//!
//! Backward-data is such a convolution too: of the gradient and the filters rotated by 180°, with input and output
//! channels exchanged. Backward-weights is F(3x3, 2x2), with the same patches ([`weights`]).
//!
//! Transforms only add, and halve filters. Errors are similar to a direct chain, as the chains are a ninth as long. But
//! transforms add numbers that cancel later, where infinities would become NaN. So all elements must be finite and
//! small enough.

mod filters;
mod planes;
mod transforms;
mod vector;
mod weights;

use super::Conv;
use super::vector::{Chains, Direct, Loops, OUTPUTS};
use crate::gemm::{Arithmetic, Elements, Shared};
use crate::isa::Isa;
use crate::library::epilogues::Epilogues;
use crate::threads;
use filters::Filters;
use ms_core::error::Result;
use ms_core::ops::WindowAxis;
use ms_core::tensor::{Array, DType, try_filled, try_room};
use planes::Planes;
use std::ops::Range;
use std::slice::from_raw_parts_mut;
use transforms::{COMPONENTS, LANES, Places, Transforms};

/// Number of rows or columns of a filter.
const KERNEL: usize = 3;

/// Number of weights of a filter.
const TAPS: usize = KERNEL * KERNEL;

/// Number of rows or columns of a square, which is the distance between patches.
const SIDE: usize = 2;

/// Cost of transforming a component of a patch or a sum, in products.
const PATCH_COST: usize = 15;

/// Cost of transforming, writing and reading a filter, in products.
const FILTER_COST: usize = 256;

/// Number of bytes that are read in the time of a product.
const BYTES_PER_PRODUCT: usize = 2;

/// Maximum size in bytes of a task's transformed patches, of which one component stays in the L2 cache.
const TASK_BYTES: usize = 2 << 20;

/// Maximum size in bytes of all transformed patches, where tasks share them.
const SHARED_BYTES: usize = 32 << 20;

/// Number of panels of output channels whose sums are transformed at once.
const PANELS: usize = 4;

/// A convolution that Winograd can compute.
pub struct Winograd {
    isa: Isa,
    batch: usize,
    groups: usize,
    /// Input channels of a group.
    channels: usize,
    /// Output channels of a group.
    outputs: usize,
    rows: Axis,
    columns: Axis,
    /// Whether this is backward-data.
    is_gradient: bool,
}

/// Elements and output positions along an axis.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    /// Padding before the first element.
    before: usize,
}

impl Axis {
    /// Returns the axis of a convolution or of its backward-data; `None` if Winograd cannot compute it.
    fn of(axis: &WindowAxis, is_gradient: bool) -> Option<Self> {
        let &WindowAxis { input, output, before, .. } = axis;
        let is_plain = (axis.kernel, axis.stride, axis.dilation) == (KERNEL, 1, 1);
        match is_gradient {
            _ if !is_plain => None,
            false => Some(Self { input, output, before }),
            true => Some(Self { input: output, output: input, before: (KERNEL - 1).checked_sub(before)? }),
        }
    }

    /// Returns the number of output positions at which a tap is an element, not padding.
    fn inside(self, tap: usize) -> usize {
        let first = self.before.saturating_sub(tap);
        let end = (self.input + self.before).saturating_sub(tap).min(self.output);
        end.saturating_sub(first)
    }

    /// Returns the number of patches along the axis.
    fn patches(self) -> usize {
        self.output.div_ceil(SIDE)
    }
}

/// Rows of patches, numbered over all images.
type Lines = Range<usize>;

impl Winograd {
    /// Returns the Winograd form of a convolution or of its backward-data; `None` if there is none.
    pub fn of(conv: &Conv, isa: Isa, is_gradient: bool) -> Option<Self> {
        let [first, rows, columns] = conv.windows.axes();
        let is_plane = [first.kernel, first.input, first.output] == [1; 3];
        let [channels, outputs] =
            if is_gradient { [conv.outputs, conv.channels] } else { [conv.channels, conv.outputs] };
        let [rows, columns] = [Axis::of(rows, is_gradient)?, Axis::of(columns, is_gradient)?];
        let it = Self { isa, batch: conv.batch, groups: conv.groups, channels, outputs, rows, columns, is_gradient };
        is_plane.then_some(it)
    }

    /// Computes a convolution of `x` and `weights` with epilogues, or its backward-data, if Winograd is permitted,
    /// faster, and accurate for these elements. Otherwise returns `false`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for transformed patches and filters.
    pub fn run<T: Direct>(
        conv: &Conv,
        arithmetic: Arithmetic,
        is_gradient: bool,
        [x, weights]: [Elements<'_, T>; 2],
        out: &mut [T],
        epilogues: Epilogues<'_>,
    ) -> Result<bool> {
        let (Some(x), Some(weights)) = (x.as_f32(), weights.as_f32()) else { return Ok(false) };
        let it = Self::of(conv, arithmetic.isa, is_gradient);
        let Some(it) = it.filter(|it| it.pays() && it.allows(arithmetic, x, weights)) else { return Ok(false) };
        // SAFETY: `as_f32` has checked that `T` is f32.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        it.compute(x.all, weights, out, epilogues)?;
        Ok(true)
    }

    /// Computes backward-weights of `x` and the gradient `g` under the same conditions as [`run`](Self::run). Otherwise
    /// returns `false`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for transformed patches and sums.
    pub fn run_weights<T: Direct>(
        conv: &Conv,
        arithmetic: Arithmetic,
        [x, g]: [Elements<'_, T>; 2],
        out: &mut [T],
    ) -> Result<bool> {
        let (Some(x), Some(g)) = (x.as_f32(), g.as_f32()) else { return Ok(false) };
        let it = Self::of(conv, arithmetic.isa, false);
        let Some(it) = it.filter(|it| it.pays_for_weights() && it.allows(arithmetic, x, g)) else { return Ok(false) };
        // SAFETY: `as_f32` has checked that `T` is f32.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        it.compute_weights(x.all, g.all, out)?;
        Ok(true)
    }

    /// Whether Winograd is faster than the other algorithms; their backward-data skips products with padding.
    pub fn pays(&self) -> bool {
        let taps = |axis: Axis| match self.is_gradient {
            true => (0..KERNEL).map(|tap| axis.inside(tap)).sum(),
            false => KERNEL * axis.output,
        };
        self.is_faster(0, self.batch * taps(self.rows) * taps(self.columns))
    }

    /// Whether Winograd is faster than `others` products for each pair of input and output channels. Its own products,
    /// its transforms and `work` are counted in products.
    fn is_faster(&self, work: usize, others: usize) -> bool {
        let products = COMPONENTS * self.batch * self.patches();
        // Each transform of a patch or square serves many pairs of channels.
        let transforms = products * PATCH_COST / self.channels + products * PATCH_COST / self.outputs + FILTER_COST;
        f32::has_vectors(self.isa) && 20 * (products + transforms + work) < 17 * others
    }

    /// Whether Winograd is permitted, and accurate for these elements.
    fn allows(&self, arithmetic: Arithmetic, a: Elements<'_, f32>, b: Elements<'_, f32>) -> bool {
        arithmetic.allows_winograd() && a.range(self.isa).allows_winograd(b.range(self.isa))
    }

    /// Returns the number of patches of a channel plane.
    fn patches(&self) -> usize {
        self.rows.patches() * self.columns.patches()
    }

    /// Returns the numbers of elements and of output positions of a channel plane.
    fn plane_lens(&self) -> [usize; 2] {
        [self.rows.input * self.columns.input, self.rows.output * self.columns.output]
    }

    /// Iterates over the images of some rows of patches: the image, and its rows of patches.
    fn images(&self, lines: &Lines) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (of_image, lines) = (self.rows.patches(), lines.clone());
        (lines.start / of_image..lines.end.div_ceil(of_image)).map(move |image| {
            let first = image * of_image;
            (image, lines.start.max(first) - first..lines.end.min(first + of_image) - first)
        })
    }

    /// Returns the number of panels of output channels of a group.
    fn panels(&self) -> usize {
        self.outputs.div_ceil(OUTPUTS)
    }

    /// Picks the partition with the shortest estimated time, and returns that time in products per vector lane.
    fn cut(&self, lanes: usize) -> (Cut, usize) {
        let (threads, size) = (threads::count(), size_of::<f32>());
        let (lines, of_line) = (self.batch * self.rows.patches(), self.columns.patches());
        let filters = COMPONENTS * self.channels * self.outputs * size;
        let patches = |lines: usize| (lines * of_line).next_multiple_of(lanes);
        let bytes = |lines: usize| COMPONENTS * self.channels * patches(lines) * size;
        let read = |bytes: usize| bytes / BYTES_PER_PRODUCT;
        let products = |lines: usize, outputs: usize| COMPONENTS * self.channels * outputs * patches(lines);
        let of_lines = (1..=lines).take_while(|it| *it == 1 || bytes(*it) <= TASK_BYTES).map(|some| {
            let rounds = lines.div_ceil(some).div_ceil(threads);
            (Cut::Lines(some), rounds * (products(some, self.outputs) + read(filters)))
        });
        let of_panels = (1..=PANELS).filter(|_| bytes(lines) <= SHARED_BYTES).map(|some| {
            let rounds = self.panels().div_ceil(some).div_ceil(threads);
            let outputs = self.outputs.min(some * OUTPUTS);
            (Cut::Panels(some), rounds * (products(lines, outputs) + read(bytes(lines))) + read(filters) / threads)
        });
        of_lines.chain(of_panels).min_by_key(|it| it.1).expect("there is one line")
    }

    /// Estimates the nanoseconds of a group of all images.
    fn nanos(&self) -> usize {
        self.batch * self.patches() * COMPONENTS * (self.channels * self.outputs / 48 + self.channels + self.outputs)
    }

    /// Computes the convolution of `x` and `weights`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for transformed patches and filters.
    pub fn compute(
        &self,
        x: &[f32],
        weights: Elements<'_, f32>,
        out: &mut [f32],
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let loops = f32::fitting(self.isa, |lanes| self.cut(lanes).1);
        let transforms = Transforms::of(loops.lanes);
        let filters = Filters::of(self, transforms, weights)?;
        let (lines, nanos, cut) = (self.batch * self.rows.patches(), self.nanos(), self.cut(loops.lanes).0);
        let out = Shared::new(out.as_mut_ptr());
        for group in 0..self.groups {
            let of = Group { of: self, loops, transforms, filters: &filters, group, x };
            match cut {
                Cut::Lines(some) => {
                    let tasks = lines.div_ceil(some);
                    threads::try_for_each(tasks, nanos, |task| {
                        let some = task * lines / tasks..(task + 1) * lines / tasks;
                        let patches = of.room(&some)?;
                        let to = patches.device_ptr().cast();
                        // SAFETY: `patches` has room for these rows of patches in all channels, and each task has its
                        // own rows of the result.
                        unsafe {
                            of.transform(&some, 0..self.channels, to)?;
                            of.multiply(&some, 0..self.panels(), to, out.get(), epilogues)
                        }
                    })?;
                }
                Cut::Panels(some) => {
                    let all = 0..lines;
                    let patches = of.room(&all)?;
                    let to = Shared::new(patches.device_ptr().cast::<f32>());
                    threads::try_for_each(self.channels.div_ceil(LANES), nanos / 8, |part| {
                        let channels = part * LANES..self.channels.min((part + 1) * LANES);
                        // SAFETY: `patches` has room for all rows of patches, and each task has its own channels of
                        // them.
                        unsafe { of.transform(&all, channels, to.get()) }
                    })?;
                    threads::try_for_each(self.panels().div_ceil(some), nanos, |task| {
                        let panels = task * some..self.panels().min((task + 1) * some);
                        // SAFETY: the previous loop has transformed all patches, and each task has its own output
                        // channels.
                        unsafe { of.multiply(&all, panels, to.get(), out.get(), epilogues) }
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// A partition into tasks.
#[derive(Clone, Copy)]
enum Cut {
    /// Tasks have this number of rows of patches, which they transform themselves.
    Lines(usize),
    /// Tasks have this number of panels of output channels, and share all transformed patches.
    Panels(usize),
}

/// A group of a convolution, with what its tasks share.
struct Group<'a> {
    of: &'a Winograd,
    loops: Loops<f32>,
    transforms: Transforms,
    filters: &'a Filters,
    group: usize,
    x: &'a [f32],
}

impl Group<'_> {
    /// Returns the number of vectors of the patches of some rows.
    fn vectors(&self, lines: &Lines) -> usize {
        (lines.len() * self.of.columns.patches()).div_ceil(self.loops.lanes)
    }

    /// Returns the distance between components of transformed patches, which puts them into different cache sets.
    fn component(&self, lines: &Lines) -> usize {
        self.vectors(lines) * self.of.channels * self.loops.lanes + LANES
    }

    /// Allocates the transformed patches of some rows: for each component and vector, the vectors of all channels.
    fn room(&self, lines: &Lines) -> Result<Array> {
        // SAFETY: `transform` writes all vectors of patches before `multiply` reads them.
        unsafe { Array::uninit(&[COMPONENTS * self.component(lines)], DType::F32) }
    }

    /// Transforms the patches of some rows and channels.
    ///
    /// # Safety
    /// `to` has [room](Self::room) for the patches of the rows, and nothing else accesses the patches of these
    /// channels.
    unsafe fn transform(&self, lines: &Lines, channels: Range<usize>, to: *mut f32) -> Result<()> {
        let Winograd { groups, rows, columns, .. } = *self.of;
        let (lanes, vectors) = (self.loops.lanes, self.vectors(lines));
        let [plane_len, _] = self.of.plane_lens();
        let mut planes = Planes::new([rows, columns], self.transforms.patches, lanes, lines.len())?;
        // With several images, vectors are collected in a buffer first, as patches of the next image follow within a
        // vector.
        let is_one = self.of.images(lines).count() == 1;
        let step = (vectors + 1) * lanes;
        let mut several = try_filled(0f32, if is_one { 0 } else { COMPONENTS * step })?;
        for channel in channels {
            let to = to.wrapping_add(channel * lanes);
            let to = Places { first: to, component: self.component(lines), vector: self.of.channels * lanes };
            let mut at = 0;
            for (image, some) in self.of.images(lines) {
                let plane = (image * groups + self.group) * self.of.channels + channel;
                let to = match is_one {
                    true => to,
                    false => Places { first: several[at..].as_mut_ptr(), component: step, vector: lanes },
                };
                at += some.len() * columns.patches();
                // SAFETY: `to` has room for the image's vectors by this function's contract; the buffer has room for
                // one vector more.
                unsafe { planes.transform(&self.x[plane * plane_len..][..plane_len], some, to) };
            }
            if !is_one {
                let from = Places { first: several.as_mut_ptr(), component: step, vector: lanes };
                // SAFETY: both have room for `vectors` vectors in each component, and the buffer's patches are written.
                unsafe { (self.transforms.copy)(from, vectors, to) };
            }
        }
        Ok(())
    }

    /// Computes the output positions of some rows and some panels of output channels, with epilogues.
    ///
    /// # Safety
    /// The patches of the rows are transformed, and nothing else accesses these output positions of the result.
    unsafe fn multiply(
        &self,
        lines: &Lines,
        panels: Range<usize>,
        patches: *const f32,
        out: *mut f32,
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let Winograd { groups, channels, outputs, rows, columns, .. } = *self.of;
        let (lanes, count, of_line) = (self.loops.lanes, self.vectors(lines), columns.patches());
        let [_, windows] = self.of.plane_lens();
        let width = count * lanes;
        // Sums by component and output channel. The transform reads up to a vector past the last sum.
        let component = panels.len().min(PANELS) * OUTPUTS * width + LANES;
        // SAFETY: the chains write the sums, and the zeros after them are written, before a transform reads them.
        let room = unsafe { Array::uninit(&[COMPONENTS * component], DType::F32)? };
        let sums = room.device_ptr().cast::<f32>();
        let mut terms = try_room(channels)?;
        terms.extend((0..channels).map(|channel| channel * lanes));
        let mut vectors = try_room(count)?;
        vectors.extend((0..count).map(|it| [it * channels * lanes, it * lanes]));
        for first in panels.clone().step_by(PANELS) {
            let some = first..panels.end.min(first + PANELS);
            for number in 0..COMPONENTS {
                for panel in some.clone() {
                    let chains = Chains {
                        vectors: &vectors,
                        x: patches.wrapping_add(number * self.component(lines)),
                        terms: &terms,
                        weights: self.filters.from(self.group, number, panel * OUTPUTS),
                        outputs: OUTPUTS.min(outputs - panel * OUTPUTS),
                        to: (sums.wrapping_add(number * component + (panel - first) * OUTPUTS * width), width),
                        adds: false,
                    };
                    // SAFETY: the patches have these vectors for each channel, rows of filters have whole panels, and
                    // `sums` has room for a panel.
                    unsafe { chains.compute(&self.loops) };
                }
            }
            let some = some.start * OUTPUTS..outputs.min(some.end * OUTPUTS);
            for number in 0..COMPONENTS {
                // SAFETY: each component of `sums` has `LANES` elements after its last sum.
                unsafe { sums.add(number * component + some.len() * width).write_bytes(0, LANES) };
            }
            let mut at = 0;
            for (image, of_image) in self.of.images(lines) {
                let image = image * groups + self.group;
                for (number, output) in some.clone().enumerate() {
                    for (line, row) in of_image.clone().enumerate() {
                        let row = SIDE * row;
                        let len = columns.output * SIDE.min(rows.output - row);
                        let from = sums.wrapping_add(number * width + at + line * of_line);
                        // SAFETY: each task has its own output positions. Other sums or zeros follow the row's sums, so
                        // whole vectors are readable. The machine has the instruction set of `loops`, and so of the
                        // transforms.
                        unsafe {
                            let to = out.add((image * outputs + output) * windows + row * columns.output);
                            let to = from_raw_parts_mut(to, len);
                            (self.transforms.windows)(from, component, to, columns.output);
                        }
                    }
                }
                at += of_image.len() * of_line;
                let whole = image / groups;
                let outputs = self.group * outputs + some.start..self.group * outputs + some.end;
                let end = rows.output.min(SIDE * of_image.end) * columns.output;
                let windows = SIDE * of_image.start * columns.output..end;
                // SAFETY: this task has computed these elements, and nothing reads them after the epilogues.
                unsafe { epilogues.run([whole..whole + 1, outputs, windows]) };
            }
        }
        Ok(())
    }
}
