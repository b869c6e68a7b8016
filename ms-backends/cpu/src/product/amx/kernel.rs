//! Products of a panel of rows and a panel of columns on the unit.

use super::split::{PANEL, PLANE};
use super::unit::{REGISTER, ROWS, Unit, WORDS};

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
}

/// Sets the [`PANEL`] rows and columns of `to`, which are `step` bytes apart, to the sums of the products of all groups
/// of packed panels, or adds these to the sums that are there.
///
/// # Safety
/// The panels have that many groups, and `to` is valid for reads and writes.
pub type Kernel<U> =
    unsafe fn(unit: &mut U, groups: usize, panels: [*const u32; 2], is_first: bool, to: *mut u32, step: isize);

/// The kernel for these terms.
pub fn kernel<U: Unit>(terms: Terms) -> Kernel<U> {
    match terms {
        Terms::Floats([3, 3]) => run::<U, Pairs, 3, 3>,
        Terms::Floats([2, 2]) => run::<U, Pairs, 2, 2>,
        Terms::Floats([3, _]) => run::<U, Pairs, 3, 1>,
        Terms::Floats([_, 3]) => run::<U, Pairs, 1, 3>,
        Terms::Floats([2, _]) => run::<U, Pairs, 2, 1>,
        Terms::Floats([_, 2]) => run::<U, Pairs, 1, 2>,
        Terms::Floats(_) => run::<U, Pairs, 1, 1>,
        Terms::Bytes([true, true]) => run::<U, Quads<true, true>, 1, 1>,
        Terms::Bytes([true, false]) => run::<U, Quads<true, false>, 1, 1>,
        Terms::Bytes([false, true]) => run::<U, Quads<false, true>, 1, 1>,
        Terms::Bytes([false, false]) => run::<U, Quads<false, false>, 1, 1>,
    }
}

/// The instruction that multiplies.
trait Dot {
    fn dot<U: Unit, const D: usize, const A: usize, const B: usize>(unit: &mut U);
}

struct Pairs;

impl Dot for Pairs {
    #[inline(always)]
    fn dot<U: Unit, const D: usize, const A: usize, const B: usize>(unit: &mut U) {
        unit.dot_pairs::<D, A, B>();
    }
}

struct Quads<const SIGNED_A: bool, const SIGNED_B: bool>;

impl<const SIGNED_A: bool, const SIGNED_B: bool> Dot for Quads<SIGNED_A, SIGNED_B> {
    #[inline(always)]
    fn dot<U: Unit, const D: usize, const A: usize, const B: usize>(unit: &mut U) {
        unit.dot_quads::<D, A, B, SIGNED_A, SIGNED_B>();
    }
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

/// [`Kernel`]: sums are in registers 0 to 3, a plane of rows in 4 and 5, and one of columns in 6 and 7.
///
/// # Safety
/// As [`Kernel`].
unsafe fn run<U: Unit, D: Dot, const A: usize, const B: usize>(
    unit: &mut U,
    groups: usize,
    [mut a, mut b]: [*const u32; 2],
    is_first: bool,
    to: *mut u32,
    step: isize,
) {
    /// Bytes of a row of a register.
    const ROW: isize = 4 * WORDS as isize;
    const { assert!(PANEL == 2 * ROWS && PLANE == 2 * REGISTER) };
    let to: [*mut u8; 4] = std::array::from_fn(|it| {
        to.cast::<u8>().wrapping_offset((it / 2 * ROWS) as isize * step).wrapping_add(it % 2 * 4 * WORDS)
    });
    // SAFETY: by the caller's contract.
    unsafe {
        if is_first {
            unit.zero::<0>();
            unit.zero::<1>();
            unit.zero::<2>();
            unit.zero::<3>();
        } else {
            unit.load::<0>(to[0], step);
            unit.load::<1>(to[1], step);
            unit.load::<2>(to[2], step);
            unit.load::<3>(to[3], step);
        }
        for _ in 0..groups {
            let mut loaded = [usize::MAX; 2];
            for &[of_a, of_b] in const { products(A, B) } {
                if loaded[0] != of_a {
                    let plane = a.add(of_a * PLANE).cast::<u8>();
                    unit.load::<4>(plane, ROW);
                    unit.load::<5>(plane.add(4 * REGISTER), ROW);
                }
                if loaded[1] != of_b {
                    let plane = b.add(of_b * PLANE).cast::<u8>();
                    unit.load::<6>(plane, ROW);
                    unit.load::<7>(plane.add(4 * REGISTER), ROW);
                }
                loaded = [of_a, of_b];
                D::dot::<U, 0, 4, 6>(unit);
                D::dot::<U, 1, 4, 7>(unit);
                D::dot::<U, 2, 5, 6>(unit);
                D::dot::<U, 3, 5, 7>(unit);
            }
            a = a.add(A * PLANE);
            b = b.add(B * PLANE);
        }
        unit.store::<0>(to[0], step);
        unit.store::<1>(to[1], step);
        unit.store::<2>(to[2], step);
        unit.store::<3>(to[3], step);
    }
}
