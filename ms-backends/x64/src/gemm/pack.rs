//! Packs parts of matrices: elements that are used together become contiguous.

use super::Matrix;
use super::element::{OperandElement, PACK_WIDTH, Transpose};
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Number of elements of each row or column that are packed at once.
const STEPS: usize = 64;

/// Packs `lines` rows or columns of a matrix: for each of `depth` steps, one element of each line.
///
/// # Safety
/// The elements are valid for reads, `to` has room for `lines * depth`, and the CPU has the instruction set of
/// `transpose`.
pub unsafe fn pack<E: OperandElement>(
    transpose: Transpose<E::Accumulator>,
    from: Matrix<*const E>,
    lines: usize,
    depth: usize,
    to: *mut E::Accumulator,
) {
    let [across, along] = from.steps;
    let element = |line: usize, step: usize| {
        let at = line as isize * across + step as isize * along;
        // SAFETY: every call has `line < lines` and `step < depth`, whose elements are valid for reads by this
        // function's contract.
        unsafe { *from.first.wrapping_offset(at) }.widen()
    };
    // SAFETY: `line < lines` and `step < depth`, and `to` has room for `lines * depth` elements.
    let put = |line: usize, step: usize| unsafe { *to.add(step * lines + line) = element(line, step) };
    if across == 1 && E::IS_ACCUMULATOR {
        let from: *const E::Accumulator = from.first.cast();
        // SAFETY: `lines` neighbouring elements of each of `depth` steps are readable, and `to` has room for them.
        // `IS_ACCUMULATOR` says that `E` is `E::Accumulator`.
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
            // SAFETY: `step < depth`: `lines` contiguous elements are readable, and `to` has room for them.
            unsafe { widen_row(from.skip(0, step).first, lines, to.add(step * lines)) };
        }
    } else if lines < PACK_WIDTH {
        // SAFETY: `N` is `lines`, so the elements are readable and `to` has room for `N * depth`.
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
        // The last group overlaps the one before it.
        let groups = || (0..lines).step_by(PACK_WIDTH).map(|it| it.min(lines - PACK_WIDTH));
        if along != 1 {
            groups().for_each(|first| {
                (0..depth).for_each(|step| (first..first + PACK_WIDTH).for_each(|line| put(line, step)));
            });
            return;
        }
        // All lines of some steps are packed while their destination is in L1.
        for start in (0..depth).step_by(STEPS) {
            let count = STEPS.min(depth - start);
            for first in groups() {
                let (from, to) = (from.skip(first, start), to.wrapping_add(start * lines + first));
                // SAFETY: `first + PACK_WIDTH <= lines` and `start + count <= depth`. If `IS_ACCUMULATOR`, `E` is
                // `E::Accumulator`.
                unsafe {
                    match E::IS_ACCUMULATOR {
                        true => transpose(count, from.first.cast(), across, to, lines),
                        false => widen_and_transpose(transpose, from, count, to, lines),
                    }
                }
            }
        }
    }
}

/// Widens contiguous elements.
///
/// # Safety
/// `from` has `count` elements, and `to` has room for them.
unsafe fn widen_row<E: OperandElement>(from: *const E, count: usize, to: *mut E::Accumulator) {
    // SAFETY: `from` is readable and `to` writable for `count` elements by this function's contract; `MaybeUninit`
    // permits uninitialised memory.
    let (from, to) =
        unsafe { (from_raw_parts(from, count), from_raw_parts_mut(to.cast::<MaybeUninit<E::Accumulator>>(), count)) };
    to.iter_mut().zip(from).for_each(|(to, it)| _ = to.write(it.widen()));
}

/// [`Transpose`] of at most [`STEPS`] elements of a narrow type, each line of which is contiguous.
///
/// # Safety
/// Each line has `depth <= STEPS` elements, `to` has room for all of them, and the CPU has the instruction set.
unsafe fn widen_and_transpose<E: OperandElement>(
    transpose: Transpose<E::Accumulator>,
    from: Matrix<*const E>,
    depth: usize,
    to: *mut E::Accumulator,
    width: usize,
) {
    let mut wide = MaybeUninit::<[[E::Accumulator; STEPS]; PACK_WIDTH]>::uninit();
    let wide = wide.as_mut_ptr().cast::<E::Accumulator>();
    // SAFETY: `depth <= STEPS`, so `wide` has room for every line, and each line is widened before `transpose` reads
    // it.
    unsafe {
        (0..PACK_WIDTH).for_each(|line| widen_row(from.skip(line, 0).first, depth, wide.add(line * STEPS)));
        transpose(depth, wide, STEPS as isize, to, width);
    }
}

/// [`pack()`] for a fixed number of neighbouring lines that tiles have: the elements of a step are copied in registers,
/// without a call.
///
/// # Safety
/// The elements are valid for reads, and `to` has room for `N * depth`.
unsafe fn copy_steps<W: Copy, const N: usize>(from: *const W, along: isize, depth: usize, to: *mut W) {
    for step in 0..depth {
        // Whole registers are stored because they are read later as such: store forwarding fails for single elements.
        // SAFETY: `step < depth`: `N` contiguous elements are readable, and `to` has room for them.
        unsafe {
            let elements = from.wrapping_offset(step as isize * along).cast::<[W; N]>().read();
            to.add(step * N).cast::<[W; N]>().write(elements);
        }
    }
}

/// [`pack()`] of a fixed number of lines, whose addresses stay in registers.
///
/// # Safety
/// The elements are valid for reads, and `to` has room for `N * depth`.
unsafe fn pack_few<E: OperandElement, const N: usize>(from: Matrix<*const E>, depth: usize, to: *mut E::Accumulator) {
    let [across, along] = from.steps;
    let mut lines: [*const E; N] = std::array::from_fn(|line| from.first.wrapping_offset(line as isize * across));
    for step in 0..depth {
        for (line, from) in lines.iter_mut().enumerate() {
            // SAFETY: `step < depth` and `line < N`, so the element is readable and `to` has room for it.
            unsafe { *to.add(step * N + line) = (**from).widen() };
            *from = from.wrapping_offset(along);
        }
    }
}

/// [`Transpose`] for every CPU.
///
/// # Safety
/// Each line has `depth` elements, and `to` has room for all of them.
pub unsafe fn plain<W: Copy>(depth: usize, from: *const W, across: isize, to: *mut W, width: usize) {
    for step in 0..depth {
        for line in 0..PACK_WIDTH {
            // SAFETY: `step < depth` and `line < PACK_WIDTH`, so the element is readable and `to` has room for it.
            unsafe { *to.add(step * width + line) = *from.wrapping_offset(line as isize * across).add(step) };
        }
    }
}

/// [`Transpose`] with 256-bit registers, which transposes square tiles.
#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    use super::{PACK_WIDTH, plain};
    use std::arch::x86_64::*;

    /// [`Transpose`](super::Transpose) of f32.
    #[target_feature(enable = "avx2")]
    pub unsafe fn f32(depth: usize, from: *const f32, across: isize, to: *mut f32, width: usize) {
        let squares = depth / 8 * 8;
        for step in (0..squares).step_by(8) {
            let from = from.wrapping_add(step);
            // SAFETY: `step + 8 <= squares <= depth`, so each line has eight more elements.
            let row = |line: isize| unsafe { _mm256_loadu_ps(from.wrapping_offset(line * across)) };
            // Shuffles interleave pairs of lines, then quadruples, each with half of the steps.
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
                // SAFETY: `step + 8 <= depth`, and `to` has room for eight lines at every step below `depth`.
                unsafe {
                    _mm256_storeu_ps(to.add((step + at) * width), _mm256_permute2f128_ps::<0x20>(a, b));
                    _mm256_storeu_ps(to.add((step + at + 4) * width), _mm256_permute2f128_ps::<0x31>(a, b));
                }
            }
        }
        // SAFETY: the lines have `depth - squares` more elements from `squares` on, and `to` has room for them.
        unsafe { plain(depth - squares, from.wrapping_add(squares), across, to.wrapping_add(squares * width), width) };
    }

    /// [`Transpose`](super::Transpose) of f64.
    #[target_feature(enable = "avx2")]
    pub unsafe fn f64(depth: usize, from: *const f64, across: isize, to: *mut f64, width: usize) {
        let squares = depth / 4 * 4;
        for step in (0..squares).step_by(4) {
            for first in (0..PACK_WIDTH).step_by(4) {
                let from = from.wrapping_add(step).wrapping_offset(first as isize * across);
                // SAFETY: `step + 4 <= squares <= depth`, so each line has four more elements.
                let row = |line: isize| unsafe { _mm256_loadu_pd(from.wrapping_offset(line * across)) };
                let pairs = [0, 2].map(|it| [row(it), row(it + 1)]);
                let pairs = pairs.map(|[a, b]| [_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)]);
                let to = to.wrapping_add(step * width + first);
                for (at, (&a, &b)) in pairs[0].iter().zip(&pairs[1]).enumerate() {
                    // SAFETY: `step + 4 <= depth`, and `to` has room for eight lines at every step below `depth`.
                    unsafe {
                        _mm256_storeu_pd(to.add(at * width), _mm256_permute2f128_pd::<0x20>(a, b));
                        _mm256_storeu_pd(to.add((at + 2) * width), _mm256_permute2f128_pd::<0x31>(a, b));
                    }
                }
            }
        }
        // SAFETY: the lines have `depth - squares` more elements from `squares` on, and `to` has room for them.
        unsafe { plain(depth - squares, from.wrapping_add(squares), across, to.wrapping_add(squares * width), width) };
    }
}
