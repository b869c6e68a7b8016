//! Packing of parts of matrices: elements that are used together are stored together.

use super::Matrix;
use super::format::Operand;
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Number of lines that are read at once, few enough that their cache lines stay in the cache.
pub const LINES: usize = 8;

/// Number of steps of lines that are packed at once.
const STEPS: usize = 64;

/// Copies [`LINES`] lines of neighbouring elements, which are `across` elements apart:
/// `to[step * width + line]` becomes element `step` of a line.
///
/// # Safety
/// The lines have `depth` elements, there is room for all of them, and the CPU has the instruction set.
pub type Turn<W> = unsafe fn(depth: usize, from: *const W, across: isize, to: *mut W, width: usize);

/// Copies some lines of a matrix: for each of `depth` steps one element from each line.
///
/// # Safety
/// The elements are valid for reads, `to` has room for `lines * depth`, and the CPU has the instruction
/// set of `turn`.
pub unsafe fn pack<E: Operand>(
    turn: Turn<E::Wide>,
    from: Matrix<*const E>,
    lines: usize,
    depth: usize,
    to: *mut E::Wide,
) {
    let [across, along] = from.steps;
    let element = |line: usize, step: usize| {
        let at = line as isize * across + step as isize * along;
        // SAFETY: by the caller's contract.
        unsafe { *from.first.wrapping_offset(at) }.widen()
    };
    // SAFETY: steps and lines are less than the numbers for which there is room.
    let put = |line: usize, step: usize| unsafe { *to.add(step * lines + line) = element(line, step) };
    if across == 1 && E::IS_WIDE {
        let from: *const E::Wide = from.first.cast();
        // SAFETY: the caller's contract is the same, for this number of lines; the types are one.
        unsafe {
            match lines {
                4 => copy_steps::<_, 4>(from, along, depth, to),
                5 => copy_steps::<_, 5>(from, along, depth, to),
                6 => copy_steps::<_, 6>(from, along, depth, to),
                8 => copy_steps::<_, 8>(from, along, depth, to),
                12 => copy_steps::<_, 12>(from, along, depth, to),
                13 => copy_steps::<_, 13>(from, along, depth, to),
                14 => copy_steps::<_, 14>(from, along, depth, to),
                16 => copy_steps::<_, 16>(from, along, depth, to),
                32 => copy_steps::<_, 32>(from, along, depth, to),
                _ => {
                    for step in 0..depth {
                        let from = from.wrapping_offset(step as isize * along);
                        to.add(step * lines).copy_from_nonoverlapping(from, lines);
                    }
                }
            }
        }
    } else if across == 1 {
        for step in 0..depth {
            // SAFETY: by the caller's contract.
            unsafe { widen_row(from.skip(0, step).first, lines, to.add(step * lines)) };
        }
    } else if lines < LINES {
        // SAFETY: the caller's contract is the same, for this number of lines.
        unsafe {
            match lines {
                0 => {}
                1 => pack_few::<E, 1>(from, depth, to),
                2 => pack_few::<E, 2>(from, depth, to),
                3 => pack_few::<E, 3>(from, depth, to),
                4 => pack_few::<E, 4>(from, depth, to),
                5 => pack_few::<E, 5>(from, depth, to),
                6 => pack_few::<E, 6>(from, depth, to),
                _ => pack_few::<E, 7>(from, depth, to),
            }
        }
    } else {
        // The last ones overlap those before them.
        let groups = || (0..lines).step_by(LINES).map(|it| it.min(lines - LINES));
        if along != 1 {
            groups().for_each(|first| {
                (0..depth).for_each(|step| (first..first + LINES).for_each(|line| put(line, step)));
            });
            return;
        }
        // All lines of some steps are written while these are in the first-level cache.
        for start in (0..depth).step_by(STEPS) {
            let count = STEPS.min(depth - start);
            for first in groups() {
                let (from, to) = (from.skip(first, start), to.wrapping_add(start * lines + first));
                // SAFETY: by the caller's contract; the types are one if elements are wide.
                unsafe {
                    match E::IS_WIDE {
                        true => turn(count, from.first.cast(), across, to, lines),
                        false => widen_and_turn(turn, from, count, to, lines),
                    }
                }
            }
        }
    }
}

/// Widens contiguous elements.
///
/// # Safety
/// There are so many, and room for them.
unsafe fn widen_row<E: Operand>(from: *const E, count: usize, to: *mut E::Wide) {
    // SAFETY: by the caller's contract; what is not initialised is written only.
    let (from, to) =
        unsafe { (from_raw_parts(from, count), from_raw_parts_mut(to.cast::<MaybeUninit<E::Wide>>(), count)) };
    to.iter_mut().zip(from).for_each(|(to, it)| _ = to.write(it.widen()));
}

/// [`Turn`] of at most [`STEPS`] elements of a narrow type, each line of which is contiguous.
///
/// # Safety
/// As [`Turn`].
unsafe fn widen_and_turn<E: Operand>(
    turn: Turn<E::Wide>,
    from: Matrix<*const E>,
    depth: usize,
    to: *mut E::Wide,
    width: usize,
) {
    let mut wide = MaybeUninit::<[[E::Wide; STEPS]; LINES]>::uninit();
    let wide = wide.as_mut_ptr().cast::<E::Wide>();
    // SAFETY: by the caller's contract; there is room for the steps of all lines, which are widened before they are read.
    unsafe {
        (0..LINES).for_each(|line| widen_row(from.skip(line, 0).first, depth, wide.add(line * STEPS)));
        turn(depth, wide, STEPS as isize, to, width);
    }
}

/// [`pack()`] of a number of lines that tiles have, which are next to each other: registers, and no calls, copy the
/// elements of a step.
///
/// # Safety
/// As [`pack()`].
unsafe fn copy_steps<W: Copy, const N: usize>(from: *const W, along: isize, depth: usize, to: *mut W) {
    for step in 0..depth {
        // Registers are read later, which waits for stores of single elements.
        // SAFETY: by the caller's contract.
        unsafe {
            let elements = from.wrapping_offset(step as isize * along).cast::<[W; N]>().read();
            to.add(step * N).cast::<[W; N]>().write(elements);
        }
    }
}

/// [`pack()`] of a fixed number of lines, whose addresses stay in registers.
///
/// # Safety
/// As [`pack()`].
unsafe fn pack_few<E: Operand, const N: usize>(from: Matrix<*const E>, depth: usize, to: *mut E::Wide) {
    let [across, along] = from.steps;
    let mut lines: [*const E; N] = std::array::from_fn(|line| from.first.wrapping_offset(line as isize * across));
    for step in 0..depth {
        for (line, from) in lines.iter_mut().enumerate() {
            // SAFETY: by the caller's contract.
            unsafe { *to.add(step * N + line) = (**from).widen() };
            *from = from.wrapping_offset(along);
        }
    }
}

/// [`Turn`] for every CPU.
///
/// # Safety
/// As [`Turn`].
pub unsafe fn plain<W: Copy>(depth: usize, from: *const W, across: isize, to: *mut W, width: usize) {
    for step in 0..depth {
        for line in 0..LINES {
            // SAFETY: by the caller's contract.
            unsafe { *to.add(step * width + line) = *from.wrapping_offset(line as isize * across).add(step) };
        }
    }
}

/// [`Turn`] with 256-bit registers: transposes squares of elements.
#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    use super::{LINES, plain};
    use std::arch::x86_64::*;

    /// [`Turn`](super::Turn) of f32.
    #[target_feature(enable = "avx2")]
    pub unsafe fn f32(depth: usize, from: *const f32, across: isize, to: *mut f32, width: usize) {
        let squares = depth / 8 * 8;
        for step in (0..squares).step_by(8) {
            let from = from.wrapping_add(step);
            // SAFETY: the lines have eight more elements.
            let row = |line: isize| unsafe { _mm256_loadu_ps(from.wrapping_offset(line * across)) };
            // Pairs of lines, then quadruples, with one half of the steps each.
            let pairs = [0, 2, 4, 6].map(|it| [row(it), row(it + 1)]);
            let pairs = pairs.map(|[a, b]| [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)]);
            let fours = [[pairs[0], pairs[1]], [pairs[2], pairs[3]]].map(|[a, b]| {
                [
                    _mm256_shuffle_ps::<0x44>(a[0], b[0]),
                    _mm256_shuffle_ps::<0xEE>(a[0], b[0]),
                    _mm256_shuffle_ps::<0x44>(a[1], b[1]),
                    _mm256_shuffle_ps::<0xEE>(a[1], b[1]),
                ]
            });
            for (at, (&a, &b)) in fours[0].iter().zip(&fours[1]).enumerate() {
                // SAFETY: there is room for eight lines at every step.
                unsafe {
                    _mm256_storeu_ps(to.add((step + at) * width), _mm256_permute2f128_ps::<0x20>(a, b));
                    _mm256_storeu_ps(to.add((step + at + 4) * width), _mm256_permute2f128_ps::<0x31>(a, b));
                }
            }
        }
        // SAFETY: as the caller's.
        unsafe { plain(depth - squares, from.wrapping_add(squares), across, to.wrapping_add(squares * width), width) };
    }

    /// [`Turn`](super::Turn) of f64.
    #[target_feature(enable = "avx2")]
    pub unsafe fn f64(depth: usize, from: *const f64, across: isize, to: *mut f64, width: usize) {
        let squares = depth / 4 * 4;
        for step in (0..squares).step_by(4) {
            for first in (0..LINES).step_by(4) {
                let from = from.wrapping_add(step).wrapping_offset(first as isize * across);
                // SAFETY: the lines have four more elements.
                let row = |line: isize| unsafe { _mm256_loadu_pd(from.wrapping_offset(line * across)) };
                let pairs = [0, 2].map(|it| [row(it), row(it + 1)]);
                let pairs = pairs.map(|[a, b]| [_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)]);
                let to = to.wrapping_add(step * width + first);
                for (at, (&a, &b)) in pairs[0].iter().zip(&pairs[1]).enumerate() {
                    // SAFETY: there is room for eight lines at every step.
                    unsafe {
                        _mm256_storeu_pd(to.add(at * width), _mm256_permute2f128_pd::<0x20>(a, b));
                        _mm256_storeu_pd(to.add((at + 2) * width), _mm256_permute2f128_pd::<0x31>(a, b));
                    }
                }
            }
        }
        // SAFETY: as the caller's.
        unsafe { plain(depth - squares, from.wrapping_add(squares), across, to.wrapping_add(squares * width), width) };
    }
}
