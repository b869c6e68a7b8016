//! Vectorises gradients over output positions that are adjacent in a grid, or over the images of a batch.

use super::grid::Grid;
use super::im2col::within;
use super::problem::Conv;
use super::vector::{Direct, Loops};
use crate::library::scratch::Scratch;
use ms_ir::data::try_room;
use ms_ir::error::Result;
use ms_ops::ops::Run;
use ms_x64::Isa;
use ms_x64::gemm::{Matrix, PACK_WIDTH, Transpose, pack};
use std::ops::Range;
use std::slice::from_raw_parts_mut;
use std::sync::Arc;

/// Maximum number of gradients that are stored for lanes of images, whose memory grows with the number of images.
const MAX_ELEMENTS: usize = 4 << 20;

/// The layout of gradients in vectors, and of sums for elements of the input.
pub struct Lanes<T> {
    pub conv: Arc<Conv>,
    pub loops: Loops<T>,
    pub transpose: Transpose<T>,
    /// Number of vectors of an output channel's gradients.
    pub count: usize,
    /// Number of sums of an input channel.
    pub sums: usize,
    /// Cost for a pair of channels and all images, in elements. Half-width vectors count twice where they take as long
    /// as full ones.
    pub elements: usize,
    /// Runs of output positions whose kernel tap is an input element.
    runs: Vec<Run>,
    kind: Kind,
}

/// The vectorised axis.
enum Kind {
    /// The output positions of an image.
    Windows {
        grid: Grid,
        /// For each vector, the index of its first output position in the grid.
        starts: Vec<usize>,
        /// Vectors per output row when rows do not share vectors.
        of_row: Option<usize>,
        /// The output positions of vectors; the other lanes are zero.
        pieces: Vec<Piece>,
    },
    /// The images of a batch, at one output position.
    Batch,
}

/// Adjacent output positions of a row, with the vector and its first lane that hold them.
struct Piece {
    vector: usize,
    lane: usize,
    window: usize,
    len: usize,
}

/// Images of a group whose vectors are stored together.
struct Set {
    group: usize,
    /// The first image. The last set overlaps the one before it.
    first: usize,
    /// Number of images that the previous set has too.
    skipped: usize,
}

impl<T: Direct> Lanes<T> {
    /// Picks the cheaper vectorised axis.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of output positions.
    pub fn new(conv: &Arc<Conv>, isa: Isa) -> Result<Self> {
        let windows = Self::windows(conv, isa)?;
        let batch = Self::batch(conv, isa)
            .filter(|it| it.elements <= windows.elements && it.count * it.loops.lanes * conv.outputs <= MAX_ELEMENTS);
        Ok(batch.unwrap_or(windows))
    }

    fn windows(conv: &Arc<Conv>, isa: Isa) -> Result<Self> {
        let (grid, runs, taps) = (Grid::new(&conv.windows)?, conv.windows.runs(), conv.windows.taps());
        let (columns, rows) = (grid.columns, grid.rows.len());
        let all = (0..taps).flat_map(|tap| (0..rows).map(move |row| (tap, row)));
        let rows_read = all.filter(|&(tap, row)| is_in(&runs, tap, row * columns..(row + 1) * columns)).count();
        // The costs of vectors over the whole grid, and of vectors along rows.
        let padded =
            |lanes: usize| [taps * grid.span().next_multiple_of(lanes), rows_read * columns.next_multiple_of(lanes)];
        let least = |lanes: usize| padded(lanes).into_iter().fold(usize::MAX, usize::min);
        let loops = T::fitting(isa, least);
        let lanes = loops.lanes;
        let [whole, in_rows] = padded(lanes);
        let of_row = (in_rows <= whole).then(|| columns.div_ceil(lanes));
        let mut starts = try_room(of_row.map_or(grid.span().div_ceil(lanes), |it| it * rows))?;
        match of_row {
            Some(_) => grid.rows.iter().for_each(|row| starts.extend((0..columns).step_by(lanes).map(|at| row + at))),
            None => starts.extend((0..grid.span()).step_by(lanes)),
        }
        let mut pieces = try_room(starts.len() + rows)?;
        for (number, row) in grid.rows.iter().enumerate() {
            let mut at = 0;
            while at < columns {
                let at_lane = of_row.map_or(row + at, |of_row| number * of_row * lanes + at);
                let (vector, lane) = (at_lane / lanes, at_lane % lanes);
                let len = (lanes - lane).min(columns - at);
                pieces.push(Piece { vector, lane, window: number * columns + at, len });
                at += len;
            }
        }
        let (count, sums) = (starts.len(), grid.len());
        let elements = conv.batch * T::full_width_cost(isa, lanes, least(lanes));
        let kind = Kind::Windows { grid, starts, of_row, pieces };
        let (conv, transpose) = (conv.clone(), T::tile(isa).transpose);
        Ok(Self { conv, loops, transpose, count, sums, elements, runs, kind })
    }

    /// Returns the layout with lanes of images; `None` if there are fewer images than lanes.
    fn batch(conv: &Arc<Conv>, isa: Isa) -> Option<Self> {
        let loops = match conv.batch < T::loops(isa).lanes {
            true => T::half(isa),
            false => T::fitting(isa, |lanes| conv.batch.next_multiple_of(lanes)),
        };
        let (lanes, runs) = (loops.lanes, conv.windows.runs());
        let (count, sums) = (conv.windows.output_len(), conv.windows.input_len() * lanes);
        let read: usize = runs.iter().map(|it| it.len).sum();
        let elements = T::full_width_cost(isa, lanes, conv.batch.next_multiple_of(lanes) * read);
        let (is_enough, conv, transpose) = (conv.batch >= lanes, conv.clone(), T::tile(isa).transpose);
        let it = Self { conv, loops, transpose, count, sums, elements, runs, kind: Kind::Batch };
        is_enough.then_some(it)
    }

    /// Calls `f` with each vector in a range for which the tap is an input element, and with the index of its sums.
    pub fn for_each_place(&self, tap: usize, vectors: Range<usize>, mut f: impl FnMut(usize, usize)) {
        match &self.kind {
            Kind::Windows { grid, starts, of_row, .. } => {
                let is_read = |vector: usize| {
                    let row = |of_row: usize| vector / of_row * grid.columns;
                    of_row.is_none_or(|it| is_in(&self.runs, tap, row(it)..row(it) + grid.columns))
                };
                vectors.filter(|&it| is_read(it)).for_each(|it| f(it, grid.taps[tap] + starts[it]));
            }
            Kind::Batch => {
                let (lanes, step) = (self.loops.lanes, self.conv.windows.step());
                for run in within(of_tap(&self.runs, tap), vectors.clone()) {
                    for window in run.window.max(vectors.start)..(run.window + run.len).min(vectors.end) {
                        f(window, (run.element + (window - run.window) * step) * lanes);
                    }
                }
            }
        }
    }

    /// Whether sums also have products of padding lanes, which are zeros times weights.
    pub fn has_zeros(&self) -> bool {
        matches!(self.kind, Kind::Windows { .. })
    }

    /// Returns the number of images of a set, which share vectors.
    fn at_once(&self) -> usize {
        if self.has_zeros() { 1 } else { self.loops.lanes }
    }

    /// Returns the number of sets of a group. Sets are numbered group by group.
    pub fn sets(&self) -> usize {
        self.conv.batch.div_ceil(self.at_once())
    }

    fn set(&self, number: usize) -> Set {
        let (group, own) = (number / self.sets(), number % self.sets() * self.at_once());
        let first = own.min(self.conv.batch - self.at_once());
        Set { group, first, skipped: own - first }
    }

    /// Stores the gradients of some output channels of a set. The vectors of all output channels at one position are
    /// contiguous.
    ///
    /// # Safety
    /// `to` has room for the vectors of all channels of the set, and nothing else accesses the vectors of these
    /// channels.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for transposed gradients.
    pub unsafe fn store(&self, number: usize, outputs: Range<usize>, g: &[T], to: *mut T) -> Result<()> {
        let (conv, lanes) = (&self.conv, self.loops.lanes);
        let (output_len, windows) = (conv.image_lens().1, conv.windows.output_len());
        let set = self.set(number);
        let g = &g[(set.first * conv.groups + set.group) * output_len..];
        // SAFETY: `vector < count` and `output < outputs`, so `to` has room for the vector. Zero bytes are zeros of
        // every float type.
        let vector = |vector: usize, output: usize| unsafe {
            let to = to.add((vector * conv.outputs + output) * lanes);
            to.write_bytes(0, lanes);
            from_raw_parts_mut(to, lanes)
        };
        match &self.kind {
            Kind::Windows { pieces, .. } => {
                for pieces in pieces.chunk_by(|a, b| a.vector == b.vector) {
                    for output in outputs.clone() {
                        let to = vector(pieces[0].vector, output);
                        for it in pieces {
                            to[it.lane..][..it.len].copy_from_slice(&g[output * windows + it.window..][..it.len]);
                        }
                    }
                }
            }
            Kind::Batch => {
                let mut transposed = Scratch::filled(T::default(), windows * lanes)?;
                let across = conv.groups * output_len;
                for output in outputs {
                    let from = Matrix { first: g[output * windows..].as_ptr(), steps: [across as isize, 1] };
                    // SAFETY: `lanes` images follow the set's first one, each with `windows` gradients, and
                    // `transposed` has room for them.
                    unsafe { pack(self.transpose, from, lanes, windows, transposed.as_mut_ptr()) };
                    for (window, from) in transposed.chunks_exact(lanes).enumerate() {
                        vector(window, output).copy_from_slice(from);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the sums of an input channel of a set to the result. Returns whether padding lanes provably changed no
    /// sum: there are none, or all sums are finite.
    ///
    /// # Safety
    /// `out` is the first element of the result, and nothing else accesses this channel of the set's images.
    pub unsafe fn load(&self, number: usize, channel: usize, sums: &[T], out: *mut T) -> bool {
        let (conv, lanes, set) = (&self.conv, self.loops.lanes, self.set(number));
        let (input_len, plane) = (conv.image_lens().0, conv.windows.input_len());
        let first = ((set.first + set.skipped) * conv.groups + set.group) * input_len + channel * plane;
        // SAFETY: `first` is the start of the channel's plane in the first image that no earlier set has.
        let out = unsafe { out.add(first) };
        let Kind::Windows { grid, .. } = &self.kind else {
            let (images, across) = (lanes - set.skipped, conv.groups * input_len);
            if plane < PACK_WIDTH {
                for (element, sums) in sums.chunks_exact(lanes).enumerate() {
                    for (image, &sum) in sums[set.skipped..].iter().enumerate() {
                        // SAFETY: the element is below `plane`, and the image is one of the set's, whose planes are
                        // writable by this function's contract.
                        unsafe { *out.add(image * across + element) = sum };
                    }
                }
                return true;
            }
            // The last group of elements overlaps the one before it.
            for element in (0..plane).step_by(PACK_WIDTH).map(|it| it.min(plane - PACK_WIDTH)) {
                let from = sums[element * lanes + set.skipped..].as_ptr();
                // SAFETY: `element + PACK_WIDTH <= plane`: `PACK_WIDTH` rows of sums follow, and the elements lie in
                // the plane of each image.
                unsafe { (self.transpose)(images, from, lanes as isize, out.add(element), across) };
            }
            return true;
        };
        // SAFETY: the image's plane has `plane` elements, which nothing else accesses by this function's contract.
        let plane = unsafe {
            // Elements under no kernel tap are zero.
            out.write_bytes(0, plane);
            from_raw_parts_mut(out, plane)
        };
        grid.load(sums, plane);
        // A fold over all elements, unlike `all`, is vectorised.
        plane.iter().fold(true, |all, it| all & it.is_finite())
    }
}

/// Returns the runs of a tap.
fn of_tap(runs: &[Run], tap: usize) -> &[Run] {
    let of_tap = &runs[runs.partition_point(|it| it.tap < tap)..];
    &of_tap[..of_tap.partition_point(|it| it.tap == tap)]
}

/// Whether a tap of any output position in a range is an input element.
fn is_in(runs: &[Run], tap: usize, windows: Range<usize>) -> bool {
    within(of_tap(runs, tap), windows).next().is_some()
}
