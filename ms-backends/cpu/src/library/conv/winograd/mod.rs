//! Winograd convolution F(2x2, 3x3) for 3x3 kernels with stride 1.
//!
//! The transform matrices are from A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015
//! (arXiv 1509.09308), section 4.1.
//!
//! The result is computed in output tiles of two by two positions, from overlapping input tiles of four by four
//! elements. Input tiles and filters are transformed to sixteen components each ([`transforms`]). Each component's
//! products of input tiles and filters are summed over input channels, in accumulation chains. The sixteen sums of an
//! output tile are transformed to its output positions. So an output tile takes 16 products for each pair of channels
//! instead of 36.
//!
//! Backward-data is such a convolution too: of the gradient and the filters rotated by 180°, with input and output
//! channels exchanged. Backward-weights is F(3x3, 2x2), with the same input tiles ([`backward_weights`]).
//!
//! Transforms only add, and halve filters. Errors are similar to a direct chain, as the chains are a ninth as long. But
//! transforms add numbers that cancel later, where infinities would become NaN. So all elements must be finite and
//! small enough.

mod backward_weights;
mod filters;
mod planes;
mod transforms;
mod vector;

use super::problem::{Call, Conv, ConvCode, Problem};
use super::vector::{Chains, Direct, Loops, OUTPUTS};
use crate::library::epilogues::Epilogues;
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, Scratch};
use filters::Filters;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use ms_ops::ops::WindowAxis;
use ms_x64::Isa;
use ms_x64::gemm::{EarlierSums, Elements, Shared};
use ms_x64::threads;
use planes::Planes;
use std::ops::Range;
use std::slice::from_raw_parts_mut;
use transforms::{COMPONENTS, LANES, TileLayout, Transforms};

/// Number of rows or columns of a filter.
const KERNEL: usize = 3;

/// Number of weights of a filter.
const TAPS: usize = KERNEL * KERNEL;

/// Number of rows or columns of an output tile, which is the distance between input tiles.
const OUTPUT_TILE: usize = 2;

/// Cost of transforming a component of an input tile or a sum, in products.
const TILE_COST: usize = 15;

/// Cost of transforming, writing and reading a filter, in products.
const FILTER_COST: usize = 256;

/// Number of bytes that are read in the time of a product.
const BYTES_PER_PRODUCT: usize = 2;

/// Maximum size in bytes of a task's transformed input tiles, of which one component stays in the L2 cache.
const TASK_BYTES: usize = 2 << 20;

/// Maximum size in bytes of all transformed input tiles, where tasks share them.
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
    fn new(axis: &WindowAxis, is_gradient: bool) -> Option<Self> {
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

    /// Returns the number of input tiles along the axis.
    fn input_tiles(self) -> usize {
        self.output.div_ceil(OUTPUT_TILE)
    }
}

/// Rows of input tiles, numbered over all images.
type TileRows = Range<usize>;

impl Winograd {
    /// Returns the Winograd form of a convolution or of its backward-data; `None` if there is none.
    pub fn new(conv: &Conv, isa: Isa, is_gradient: bool) -> Option<Self> {
        let [first, rows, columns] = conv.windows.axes();
        let is_plane = [first.kernel, first.input, first.output] == [1; 3];
        let [channels, outputs] =
            if is_gradient { [conv.outputs, conv.channels] } else { [conv.channels, conv.outputs] };
        let [rows, columns] = [Axis::new(rows, is_gradient)?, Axis::new(columns, is_gradient)?];
        let it = Self { isa, batch: conv.batch, groups: conv.groups, channels, outputs, rows, columns, is_gradient };
        is_plane.then_some(it)
    }

    /// Accepts a problem that Winograd may and can compute, for which `is_faster` holds.
    fn accepts<T: Direct>(problem: &Problem, is_gradient: bool, is_faster: fn(&Self) -> bool) -> Result<(), Declined> {
        let Problem { conv, arithmetic, .. } = problem;
        require(arithmetic.allows_winograd(), || format!("{} does not permit it", arithmetic.precision))?;
        problem.prefers_vectors()?;
        require(T::DTYPE == DType::F32, || "the elements are not f32")?;
        let it = Self::new(conv, arithmetic.isa, is_gradient);
        let it = it.ok_or("the kernel is not 3x3, with stride 1 and without dilation")?;
        require(is_faster(&it), || "its transforms would take longer than they save")
    }

    /// Whether Winograd is faster than the other algorithms; their backward-data skips products with padding.
    pub fn is_profitable(&self) -> bool {
        let taps = |axis: Axis| match self.is_gradient {
            true => (0..KERNEL).map(|tap| axis.inside(tap)).sum(),
            false => KERNEL * axis.output,
        };
        self.is_faster(0, self.batch * taps(self.rows) * taps(self.columns))
    }

    /// Whether Winograd is faster than `others` products for each pair of input and output channels. Its own products,
    /// its transforms and `work` are counted in products.
    fn is_faster(&self, work: usize, others: usize) -> bool {
        let products = COMPONENTS * self.batch * self.input_tiles();
        // Each transform of an input tile or output tile serves many pairs of channels.
        let transforms = products * TILE_COST / self.channels + products * TILE_COST / self.outputs + FILTER_COST;
        f32::has_vectors(self.isa) && 20 * (products + transforms + work) < 17 * others
    }

    /// Whether Winograd is accurate for these elements.
    fn allows(&self, [a, b]: [Elements<'_, f32>; 2]) -> bool {
        a.range(self.isa).allows_winograd(b.range(self.isa))
    }

    /// Returns the number of input tiles of a channel plane.
    fn input_tiles(&self) -> usize {
        self.rows.input_tiles() * self.columns.input_tiles()
    }

    /// Returns the numbers of elements and of output positions of a channel plane.
    fn plane_lens(&self) -> [usize; 2] {
        [self.rows.input * self.columns.input, self.rows.output * self.columns.output]
    }

    /// Iterates over the images of some rows of input tiles: the image, and its rows of input tiles.
    fn images(&self, tile_rows: &TileRows) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (of_image, tile_rows) = (self.rows.input_tiles(), tile_rows.clone());
        (tile_rows.start / of_image..tile_rows.end.div_ceil(of_image)).map(move |image| {
            let first = image * of_image;
            (image, tile_rows.start.max(first) - first..tile_rows.end.min(first + of_image) - first)
        })
    }

    /// Returns the number of panels of output channels of a group.
    fn panels(&self) -> usize {
        self.outputs.div_ceil(OUTPUTS)
    }

    /// Picks the partition with the shortest estimated time, and returns that time in products per vector lane.
    fn partition(&self, lanes: usize) -> (Partition, usize) {
        let (threads, size) = (threads::count(), size_of::<f32>());
        let (tile_rows, of_tile_row) = (self.batch * self.rows.input_tiles(), self.columns.input_tiles());
        let filters = COMPONENTS * self.channels * self.outputs * size;
        let input_tiles = |tile_rows: usize| (tile_rows * of_tile_row).next_multiple_of(lanes);
        let bytes = |tile_rows: usize| COMPONENTS * self.channels * input_tiles(tile_rows) * size;
        let read = |bytes: usize| bytes / BYTES_PER_PRODUCT;
        let products = |tile_rows: usize, outputs: usize| COMPONENTS * self.channels * outputs * input_tiles(tile_rows);
        let of_tile_rows = (1..=tile_rows).take_while(|it| *it == 1 || bytes(*it) <= TASK_BYTES).map(|some| {
            let rounds = tile_rows.div_ceil(some).div_ceil(threads);
            (Partition::TileRows(some), rounds * (products(some, self.outputs) + read(filters)))
        });
        let of_panels = (1..=PANELS).filter(|_| bytes(tile_rows) <= SHARED_BYTES).map(|some| {
            let rounds = self.panels().div_ceil(some).div_ceil(threads);
            let outputs = self.outputs.min(some * OUTPUTS);
            (
                Partition::Panels(some),
                rounds * (products(tile_rows, outputs) + read(bytes(tile_rows))) + read(filters) / threads,
            )
        });
        of_tile_rows.chain(of_panels).min_by_key(|it| it.1).expect("there is one line")
    }

    /// Estimates the nanoseconds of a group of all images.
    fn nanos(&self) -> usize {
        self.batch
            * self.input_tiles()
            * COMPONENTS
            * (self.channels * self.outputs / 48 + self.channels + self.outputs)
    }

    /// Computes the convolution of `x` and `weights`, with epilogues.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for transformed input tiles and filters.
    pub fn compute(
        &self,
        x: &[f32],
        weights: Elements<'_, f32>,
        out: &mut [f32],
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let loops = f32::fitting(self.isa, |lanes| self.partition(lanes).1);
        let transforms = Transforms::with_lanes(loops.lanes);
        let filters = Filters::new(self, transforms, weights)?;
        let (tile_rows, nanos, partition) =
            (self.batch * self.rows.input_tiles(), self.nanos(), self.partition(loops.lanes).0);
        let out = Shared::new(out.as_mut_ptr());
        for group in 0..self.groups {
            let of = Group { of: self, loops, transforms, filters: &filters, group, x };
            match partition {
                Partition::TileRows(some) => {
                    let tasks = tile_rows.div_ceil(some);
                    threads::try_for_each(tasks, nanos, |task| {
                        let some = task * tile_rows / tasks..(task + 1) * tile_rows / tasks;
                        let input_tiles = of.room(&some)?;
                        let to = input_tiles.device_ptr().cast();
                        // SAFETY: `input_tiles` has room for these rows of input tiles in all channels, and each task
                        // has its own rows of the result.
                        unsafe {
                            of.transform(&some, 0..self.channels, to)?;
                            of.multiply(&some, 0..self.panels(), to, out.get(), epilogues)
                        }
                    })?;
                }
                Partition::Panels(some) => {
                    let all = 0..tile_rows;
                    let input_tiles = of.room(&all)?;
                    let to = Shared::new(input_tiles.device_ptr().cast::<f32>());
                    threads::try_for_each(self.channels.div_ceil(LANES), nanos / 8, |part| {
                        let channels = part * LANES..self.channels.min((part + 1) * LANES);
                        // SAFETY: `input_tiles` has room for all rows of input tiles, and each task has its own
                        // channels of them.
                        unsafe { of.transform(&all, channels, to.get()) }
                    })?;
                    threads::try_for_each(self.panels().div_ceil(some), nanos, |task| {
                        let panels = task * some..self.panels().min((task + 1) * some);
                        // SAFETY: the previous loop has transformed all input tiles, and each task has its own output
                        // channels.
                        unsafe { of.multiply(&all, panels, to.get(), out.get(), epilogues) }
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// A convolution or its backward-data.
pub struct ByTiles(Winograd);

impl ByTiles {
    /// Accepts a problem that Winograd may and can compute, if it is faster.
    pub fn accepts<T: Direct>(problem: &Problem, is_gradient: bool) -> Result<(), Declined> {
        Winograd::accepts::<T>(problem, is_gradient, Winograd::is_profitable)
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem, is_gradient: bool) -> Self {
        Self(Winograd::new(&problem.conv, problem.arithmetic.isa, is_gradient).expect("the problem was accepted"))
    }
}

impl<T: Direct> ConvCode<T> for ByTiles {
    fn run(&self, Call { operands, out, epilogues, .. }: Call<'_, T>) -> Result<bool> {
        let [x, weights] = operands.map(|it| it.as_f32().expect("only f32 is accepted"));
        if !self.0.allows([x, weights]) {
            return Ok(false);
        }
        // SAFETY: `as_f32` has checked that `T` is f32.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        self.0.compute(x.all, weights, out, epilogues)?;
        Ok(true)
    }
}

/// Backward-weights.
pub struct WeightsByTiles(Winograd);

impl WeightsByTiles {
    /// Accepts a problem that Winograd may and can compute, if it is faster.
    pub fn accepts<T: Direct>(problem: &Problem) -> Result<(), Declined> {
        Winograd::accepts::<T>(problem, false, Winograd::is_profitable_for_weights)
    }

    /// Prepares a problem that was accepted.
    pub fn new(problem: &Problem) -> Self {
        Self(Winograd::new(&problem.conv, problem.arithmetic.isa, false).expect("the problem was accepted"))
    }
}

impl<T: Direct> ConvCode<T> for WeightsByTiles {
    fn run(&self, Call { operands, out, .. }: Call<'_, T>) -> Result<bool> {
        let [x, g] = operands.map(|it| it.as_f32().expect("only f32 is accepted"));
        if !self.0.allows([x, g]) {
            return Ok(false);
        }
        // SAFETY: `as_f32` has checked that `T` is f32.
        let out = unsafe { from_raw_parts_mut(out.as_mut_ptr().cast(), out.len()) };
        self.0.compute_backward_weights(x.all, g.all, out)?;
        Ok(true)
    }
}

/// A partition into tasks.
#[derive(Clone, Copy)]
enum Partition {
    /// Tasks have this number of rows of input tiles, which they transform themselves.
    TileRows(usize),
    /// Tasks have this number of panels of output channels, and share all transformed input tiles.
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
    /// Returns the number of vectors of the input tiles of some rows.
    fn vectors(&self, tile_rows: &TileRows) -> usize {
        (tile_rows.len() * self.of.columns.input_tiles()).div_ceil(self.loops.lanes)
    }

    /// Returns the distance between components of transformed input tiles, which puts them into different cache sets.
    fn component(&self, tile_rows: &TileRows) -> usize {
        self.vectors(tile_rows) * self.of.channels * self.loops.lanes + LANES
    }

    /// Allocates the transformed input tiles of some rows: for each component and vector, the vectors of all channels.
    fn room(&self, tile_rows: &TileRows) -> Result<Storage> {
        scratch::uninit::<f32>(COMPONENTS * self.component(tile_rows))
    }

    /// Transforms the input tiles of some rows and channels.
    ///
    /// # Safety
    /// `to` has [room](Self::room) for the input tiles of the rows, and nothing else accesses the input tiles of these
    /// channels.
    unsafe fn transform(&self, tile_rows: &TileRows, channels: Range<usize>, to: *mut f32) -> Result<()> {
        let Winograd { groups, rows, columns, .. } = *self.of;
        let (lanes, vectors) = (self.loops.lanes, self.vectors(tile_rows));
        let [plane_len, _] = self.of.plane_lens();
        let mut planes = Planes::new([rows, columns], self.transforms.input_tiles, lanes, tile_rows.len())?;
        // With several images, vectors are collected in a buffer first, as input tiles of the next image follow within
        // a vector.
        let is_one = self.of.images(tile_rows).count() == 1;
        let step = (vectors + 1) * lanes;
        let mut several = Scratch::filled(0f32, if is_one { 0 } else { COMPONENTS * step })?;
        for channel in channels {
            let to = to.wrapping_add(channel * lanes);
            let to = TileLayout { first: to, component: self.component(tile_rows), vector: self.of.channels * lanes };
            let mut at = 0;
            for (image, some) in self.of.images(tile_rows) {
                let plane = (image * groups + self.group) * self.of.channels + channel;
                let to = match is_one {
                    true => to,
                    false => TileLayout { first: several[at..].as_mut_ptr(), component: step, vector: lanes },
                };
                at += some.len() * columns.input_tiles();
                // SAFETY: `to` has room for the image's vectors by this function's contract; the buffer has room for
                // one vector more.
                unsafe { planes.transform(&self.x[plane * plane_len..][..plane_len], some, to) };
            }
            if !is_one {
                let from = TileLayout { first: several.as_mut_ptr(), component: step, vector: lanes };
                // SAFETY: both have room for `vectors` vectors in each component, and the buffer's input tiles are
                // written.
                unsafe { (self.transforms.copy)(from, vectors, to) };
            }
        }
        Ok(())
    }

    /// Computes the output positions of some rows and some panels of output channels, with epilogues.
    ///
    /// # Safety
    /// The input tiles of the rows are transformed, and nothing else accesses these output positions of the result.
    unsafe fn multiply(
        &self,
        tile_rows: &TileRows,
        panels: Range<usize>,
        input_tiles: *const f32,
        out: *mut f32,
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let Winograd { groups, channels, outputs, rows, columns, .. } = *self.of;
        let (lanes, count, of_tile_row) = (self.loops.lanes, self.vectors(tile_rows), columns.input_tiles());
        let [_, windows] = self.of.plane_lens();
        let width = count * lanes;
        // Sums by component and output channel. The transform reads up to a vector past the last sum.
        let component = panels.len().min(PANELS) * OUTPUTS * width + LANES;
        // The chains write the sums, and the zeros after them are written, before a transform reads them.
        let room = scratch::uninit::<f32>(COMPONENTS * component)?;
        let sums = room.device_ptr().cast::<f32>();
        let mut terms = Scratch::filled(0, channels)?;
        terms.iter_mut().enumerate().for_each(|(channel, to)| *to = channel * lanes);
        let mut vectors = Scratch::filled([0; 2], count)?;
        vectors.iter_mut().enumerate().for_each(|(at, to)| *to = [at * channels * lanes, at * lanes]);
        for first in panels.clone().step_by(PANELS) {
            let some = first..panels.end.min(first + PANELS);
            for number in 0..COMPONENTS {
                for panel in some.clone() {
                    let chains = Chains {
                        vectors: &vectors,
                        x: input_tiles.wrapping_add(number * self.component(tile_rows)),
                        terms: &terms,
                        weights: self.filters.from(self.group, number, panel * OUTPUTS),
                        outputs: OUTPUTS.min(outputs - panel * OUTPUTS),
                        to: (sums.wrapping_add(number * component + (panel - first) * OUTPUTS * width), width),
                        earlier: EarlierSums::NONE,
                    };
                    // SAFETY: the input tiles have these vectors for each channel, rows of filters have whole panels,
                    // and `sums` has room for a panel.
                    unsafe { chains.compute(&self.loops)? };
                }
            }
            let some = some.start * OUTPUTS..outputs.min(some.end * OUTPUTS);
            for number in 0..COMPONENTS {
                // SAFETY: each component of `sums` has `LANES` elements after its last sum.
                unsafe { sums.add(number * component + some.len() * width).write_bytes(0, LANES) };
            }
            let mut at = 0;
            for (image, of_image) in self.of.images(tile_rows) {
                let image = image * groups + self.group;
                for (number, output) in some.clone().enumerate() {
                    for (line, row) in of_image.clone().enumerate() {
                        let row = OUTPUT_TILE * row;
                        let len = columns.output * OUTPUT_TILE.min(rows.output - row);
                        let from = sums.wrapping_add(number * width + at + line * of_tile_row);
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
                at += of_image.len() * of_tile_row;
                let whole = image / groups;
                let outputs = self.group * outputs + some.start..self.group * outputs + some.end;
                let end = rows.output.min(OUTPUT_TILE * of_image.end) * columns.output;
                let windows = OUTPUT_TILE * of_image.start * columns.output..end;
                // SAFETY: this task has computed these elements, and nothing reads them after the epilogues.
                unsafe { epilogues.run([whole..whole + 1, outputs, windows]) };
            }
        }
        Ok(())
    }
}
