//! Products of a panel of rows and a panel of columns.

#[cfg(doc)]
use super::split::PANEL;
use super::split::PLANE;
use super::tiles::{REGISTER, WORDS};
use crate::codegen;

/// Number of words of a line of the cache.
pub const LINE: usize = codegen::LINE / size_of::<u32>();

/// The terms of a product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Terms {
    /// Floats, as sums of so many bf16 for each operand.
    Floats([usize; 2]),
    /// Integers of a byte, which have a sign or not in each operand.
    Bytes([bool; 2]),
}

impl Terms {
    /// Those of the transposed product.
    pub fn turned(self) -> Self {
        match self {
            Self::Floats([a, b]) => Self::Floats([b, a]),
            Self::Bytes([a, b]) => Self::Bytes([b, a]),
        }
    }

    /// The numbers of planes.
    pub fn planes(self) -> [usize; 2] {
        match self {
            Self::Floats(planes) => planes,
            Self::Bytes(_) => [1; 2],
        }
    }

    /// The number of products of planes.
    pub fn products(self) -> usize {
        let [a, b] = self.planes();
        // Those of planes that are low both are left out.
        if a == b { a * (a + 1) / 2 } else { a * b }
    }

    /// Whether the products of planes are as many as for f32 in full, for which packing takes a notable part of the time.
    pub fn is_full(self) -> bool {
        self == Self::Floats([3, 3])
    }
}

/// The words of [`PANEL`] columns: of each group some planes, each of which is two registers. Distances are in words.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The first word, from which groups have their distances.
    pub first: *const u32,
    /// Where each group is.
    pub groups: &'a [usize],
    /// Between the planes of a group.
    pub plane: usize,
    /// Between the registers of a plane.
    pub register: usize,
    /// Between the rows of a register.
    pub row: usize,
    pub ahead: Ahead,
}

/// What a later product reads, which is fetched into the second-level cache meanwhile: so many lines of it for each group.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub first: *const u32,
    pub lines: usize,
}

impl Ahead {
    /// Nothing.
    pub const NONE: Self = Self { first: std::ptr::null(), lines: 0 };
}

impl<'a> Columns<'a> {
    /// Those of a packed panel.
    pub fn packed(first: *const u32, groups: &'a [usize], ahead: Ahead) -> Self {
        Self { first, groups, plane: PLANE, register: REGISTER, row: WORDS, ahead }
    }
}

/// Sets the [`PANEL`] rows and columns of `to`, which are `step` bytes apart, to the sums of the products of all groups
/// of columns and of a packed panel of rows, or adds these to the sums that are there.
///
/// # Safety
/// The panel of rows has as many groups as the columns, all words are valid for reads, and `to` is for reads and writes.
pub type Kernel<U> =
    unsafe fn(unit: &mut U, rows: *const u32, columns: Columns<'_>, is_first: bool, to: *mut u32, step: isize);

/// What multiplies panels, on one thread.
pub trait Unit: Sized {
    /// The unit, taken for this thread.
    ///
    /// # Safety
    /// This machine has the unit, and this thread has no other one.
    unsafe fn start() -> Self;

    /// The kernel for terms that the unit [multiplies](super::Units::multiplies).
    fn kernel(terms: Terms) -> Kernel<Self>;
}

/// The products of planes of a group: those that together are as exact as the operands, in an order in which one plane
/// of each is the next one's, from the smallest on as far as that allows. Plane 0 is the highest.
pub const fn products(a: usize, b: usize) -> &'static [[usize; 2]] {
    match (a, b) {
        (3, 3) => &[[0, 2], [0, 1], [1, 1], [1, 0], [0, 0], [2, 0]],
        (2, 2) => &[[0, 1], [0, 0], [1, 0]],
        (3, 1) => &[[2, 0], [1, 0], [0, 0]],
        (1, 3) => &[[0, 2], [0, 1], [0, 0]],
        (2, 1) => &[[1, 0], [0, 0]],
        (1, 2) => &[[0, 1], [0, 0]],
        _ => &[[0, 0]],
    }
}

/// The elements of a pair of bf16, as units read them.
pub fn pair(word: u32) -> [f32; 2] {
    [word << 16, word & 0xffff_0000].map(|it| flushed(f32::from_bits(it)))
}

/// A zero for a number below the normal ones.
#[inline(always)]
pub fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}
