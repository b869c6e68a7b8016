//! Convolutions with kernels of three by three elements, without strides, in fewer products: Winograd's algorithm
//! F(2x2, 3x3), with the matrices of A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015
//! (arXiv 1509.09308), section 4.1.
//!
//! The result is computed in squares of two by two windows, from patches of four by four elements, which overlap. Patches
//! and filters are transformed to sixteen components each ([`transforms`]). For each component, the products of those of
//! the patches and those of the filters are summed over input channels, in chains. The sixteen sums of a square are
//! transformed to its windows. These are 16 products for each pair of channels instead of 36.
//!
//! The gradient for the input of such a convolution is one, too: of the gradient and the turned filters, with outputs and
//! channels exchanged. That for the weights is F(3x3, 2x2), with the same patches ([`weights`]).
//!
//! Transforms only add, and halve filters, so that errors are about those of a chain of all terms: chains are a ninth as
//! long. But they add numbers that leave the sum again, where infinities would become nan. So all numbers are finite, and
//! small enough.

mod filters;
mod planes;
mod transforms;
mod vector;
mod weights;

use super::Conv;
use super::vector::{Chains, Direct, Loops, OUTPUTS};
use crate::isa::Isa;
use crate::library::epilogues::Epilogues;
use crate::product::{Arithmetic, Elements, Shared};
use crate::threads;
use filters::Filters;
use ms_core::error::Result;
use ms_core::ops::WindowAxis;
use ms_core::tensor::{Array, DType, try_filled, try_room};
use planes::Planes;
use std::ops::Range;
use std::slice::from_raw_parts_mut;
use transforms::{COMPONENTS, LANES, Places, Transforms};

/// Elements of a row or column of a filter.
const KERNEL: usize = 3;

/// Weights of a filter.
const TAPS: usize = KERNEL * KERNEL;

/// Windows of a row or column of a square, which is the distance of patches.
const SIDE: usize = 2;

/// The time to transform a component of a patch or a sum, in products.
const PATCH_COST: usize = 15;

/// The time to transform a filter, and to write and read it, in products.
const FILTER_COST: usize = 256;

/// The number of bytes that are read in the time of a product.
const BYTES_PER_PRODUCT: usize = 2;

/// Maximum size in bytes of the patches of the lines of a task: those of a component stay in a second-level cache.
const TASK_BYTES: usize = 2 << 20;

/// Maximum size in bytes of the patches of all lines, where tasks share them.
const SHARED_BYTES: usize = 32 << 20;

/// Number of panels of outputs whose sums are transformed at once.
const PANELS: usize = 4;

/// A convolution that is computed by this algorithm.
pub struct Winograd {
    isa: Isa,
    batch: usize,
    groups: usize,
    /// Of a group.
    channels: usize,
    /// Of a group.
    outputs: usize,
    rows: Axis,
    columns: Axis,
    /// Whether this is the gradient for the input.
    is_gradient: bool,
}

/// Elements and windows along an axis.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    /// Padding before the first element.
    before: usize,
}

impl Axis {
    /// That of a convolution, or of the gradient for its input; `None` if this is not one that has such patches.
    fn of(axis: &WindowAxis, is_gradient: bool) -> Option<Self> {
        let &WindowAxis { input, output, before, .. } = axis;
        let is_plain = (axis.kernel, axis.stride, axis.dilation) == (KERNEL, 1, 1);
        match is_gradient {
            _ if !is_plain => None,
            false => Some(Self { input, output, before }),
            true => Some(Self { input: output, output: input, before: (KERNEL - 1).checked_sub(before)? }),
        }
    }

    /// The number of windows with a tap on an element, not on padding.
    fn inside(self, tap: usize) -> usize {
        let first = self.before.saturating_sub(tap);
        let end = (self.input + self.before).saturating_sub(tap).min(self.output);
        end.saturating_sub(first)
    }

    /// Patches along the axis.
    fn patches(self) -> usize {
        self.output.div_ceil(SIDE)
    }
}

/// Rows of patches of all images, one after the other.
type Lines = Range<usize>;

impl Winograd {
    /// A convolution, or the gradient for its input; `None` if it is not one that has such patches.
    pub fn of(conv: &Conv, isa: Isa, is_gradient: bool) -> Option<Self> {
        let [first, rows, columns] = conv.windows.axes();
        let is_plane = [first.kernel, first.input, first.output] == [1; 3];
        let [channels, outputs] =
            if is_gradient { [conv.outputs, conv.channels] } else { [conv.channels, conv.outputs] };
        let [rows, columns] = [Axis::of(rows, is_gradient)?, Axis::of(columns, is_gradient)?];
        let it = Self { isa, batch: conv.batch, groups: conv.groups, channels, outputs, rows, columns, is_gradient };
        is_plane.then_some(it)
    }

    /// Computes a convolution of `x` and `weights` with epilogues, or the gradient for its input, if this is permitted,
    /// faster, and as exact for these elements as for others; otherwise returns `false`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for transformed patches and filters.
    pub fn run<T: Direct>(
        conv: &Conv,
        arithmetic: Arithmetic,
        is_gradient: bool,
        [x, weights]: [Elements<'_, T>; 2],
        out: &mut [T],
        epilogues: Epilogues<'_>,
    ) -> Result<bool> {
        let (Some(x), Some(weights)) = (x.of_f32(), weights.of_f32()) else { return Ok(false) };
        let it = Self::of(conv, arithmetic.isa, is_gradient);
        let Some(it) = it.filter(|it| it.pays() && it.allows(arithmetic, x, weights)) else { return Ok(false) };
        // SAFETY: the types are one.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        it.compute(x.all, weights, out, epilogues)?;
        Ok(true)
    }

    /// Computes the gradient for the weights of `x` and the gradient `g` in the same cases; otherwise returns `false`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for transformed patches and sums.
    pub fn run_weights<T: Direct>(
        conv: &Conv,
        arithmetic: Arithmetic,
        [x, g]: [Elements<'_, T>; 2],
        out: &mut [T],
    ) -> Result<bool> {
        let (Some(x), Some(g)) = (x.of_f32(), g.of_f32()) else { return Ok(false) };
        let it = Self::of(conv, arithmetic.isa, false);
        let Some(it) = it.filter(|it| it.pays_for_weights() && it.allows(arithmetic, x, g)) else { return Ok(false) };
        // SAFETY: the types are one.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        it.compute_weights(x.all, g.all, out)?;
        Ok(true)
    }

    /// Whether this takes less time than other ways, of which the gradient leaves out products with padding.
    pub fn pays(&self) -> bool {
        let taps = |axis: Axis| match self.is_gradient {
            true => (0..KERNEL).map(|tap| axis.inside(tap)).sum(),
            false => KERNEL * axis.output,
        };
        self.is_faster(0, self.batch * taps(self.rows) * taps(self.columns))
    }

    /// Whether all products for a pair of channels and outputs, with transforms and with other work that takes the time of so
    /// many products, take less time than others.
    fn is_faster(&self, work: usize, others: usize) -> bool {
        let products = COMPONENTS * self.batch * self.patches();
        // The transforms of patches and of windows are those of many pairs.
        let transforms = products * PATCH_COST / self.channels + products * PATCH_COST / self.outputs + FILTER_COST;
        f32::has_vectors(self.isa) && 20 * (products + transforms + work) < 17 * others
    }

    /// Whether this is permitted, and as exact for these elements as for others.
    fn allows(&self, arithmetic: Arithmetic, a: Elements<'_, f32>, b: Elements<'_, f32>) -> bool {
        arithmetic.allows_transforms() && a.range(self.isa).allows_differences(b.range(self.isa))
    }

    /// Patches of a plane.
    fn patches(&self) -> usize {
        self.rows.patches() * self.columns.patches()
    }

    /// Elements of a plane, and windows of it.
    fn plane_lens(&self) -> [usize; 2] {
        [self.rows.input * self.columns.input, self.rows.output * self.columns.output]
    }

    /// The lines of each image: its number, and some rows of its patches.
    fn images(&self, lines: &Lines) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (of_image, lines) = (self.rows.patches(), lines.clone());
        (lines.start / of_image..lines.end.div_ceil(of_image)).map(move |image| {
            let first = image * of_image;
            (image, lines.start.max(first) - first..lines.end.min(first + of_image) - first)
        })
    }

    /// Panels of the outputs of a group.
    fn panels(&self) -> usize {
        self.outputs.div_ceil(OUTPUTS)
    }

    /// The way to cut the work in which the last thread is done first, and about when it is, in products of a vector's lane.
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

    /// Estimated nanoseconds for a group of all images.
    fn nanos(&self) -> usize {
        self.batch * self.patches() * COMPONENTS * (self.channels * self.outputs / 48 + self.channels + self.outputs)
    }

    /// The convolution of `x` and `weights`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for transformed patches and filters.
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
                        // SAFETY: there is room for these; each task has its own lines of the result.
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
                        // SAFETY: there is room for these; each task has its own channels.
                        unsafe { of.transform(&all, channels, to.get()) }
                    })?;
                    threads::try_for_each(self.panels().div_ceil(some), nanos, |task| {
                        let panels = task * some..self.panels().min((task + 1) * some);
                        // SAFETY: all patches are transformed; each task has its own outputs.
                        unsafe { of.multiply(&all, panels, to.get(), out.get(), epilogues) }
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// How the work is cut into tasks.
#[derive(Clone, Copy)]
enum Cut {
    /// Each has so many lines, and transforms their patches.
    Lines(usize),
    /// Each has so many panels of outputs, and reads the patches of all lines.
    Panels(usize),
}

/// A group of a convolution.
struct Group<'a> {
    of: &'a Winograd,
    loops: Loops<f32>,
    transforms: Transforms,
    filters: &'a Filters,
    group: usize,
    x: &'a [f32],
}

impl Group<'_> {
    /// Vectors of the patches of some lines.
    fn vectors(&self, lines: &Lines) -> usize {
        (lines.len() * self.of.columns.patches()).div_ceil(self.loops.lanes)
    }

    /// Elements from a transformed patch's component to the next one. They are not in the same set of a cache.
    fn component(&self, lines: &Lines) -> usize {
        self.vectors(lines) * self.of.channels * self.loops.lanes + LANES
    }

    /// Room for the transformed patches of some lines: by component and vector, those of all channels.
    fn room(&self, lines: &Lines) -> Result<Array> {
        // SAFETY: what is read was written before.
        unsafe { Array::uninit(&[COMPONENTS * self.component(lines)], DType::F32) }
    }

    /// Transforms the patches of some lines and channels.
    ///
    /// # Safety
    /// There is [room](Self::room) for the patches of the lines, to which nobody else writes those of these channels.
    unsafe fn transform(&self, lines: &Lines, channels: Range<usize>, to: *mut f32) -> Result<()> {
        let Winograd { groups, rows, columns, .. } = *self.of;
        let (lanes, vectors) = (self.loops.lanes, self.vectors(lines));
        let [plane_len, _] = self.of.plane_lens();
        let mut planes = Planes::new([rows, columns], self.transforms.patches, lanes, lines.len())?;
        // Vectors of patches of several images are stored here first: after those of an image there are those of the next.
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
                // SAFETY: there is room by the caller's contract, or for one vector more than there are.
                unsafe { planes.transform(&self.x[plane * plane_len..][..plane_len], some, to) };
            }
            if !is_one {
                let from = Places { first: several.as_mut_ptr(), component: step, vector: lanes };
                // SAFETY: there is room by the caller's contract.
                unsafe { (self.transforms.copy)(from, vectors, to) };
            }
        }
        Ok(())
    }

    /// Computes the windows of some lines and panels of outputs, with epilogues.
    ///
    /// # Safety
    /// The patches of the lines are transformed; nobody else reads or writes these windows of the result.
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
        // Sums by component and output. What is transformed at once ends after the last one.
        let component = panels.len().min(PANELS) * OUTPUTS * width + LANES;
        // SAFETY: what is read was written before.
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
                    // SAFETY: the patches have these vectors for each channel, the filters have whole panels, and there is
                    // room for the sums of a panel.
                    unsafe { chains.compute(&self.loops) };
                }
            }
            let some = some.start * OUTPUTS..outputs.min(some.end * OUTPUTS);
            for number in 0..COMPONENTS {
                // SAFETY: zeros are zero bytes, for which there is room after the sums.
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
                        // SAFETY: each task has its own windows; the sums are there, and after them others or zeros; the
                        // machine has the instruction set.
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
                // SAFETY: these elements are computed, and read no more.
                unsafe { epilogues.run([whole..whole + 1, outputs, windows]) };
            }
        }
        Ok(())
    }
}
