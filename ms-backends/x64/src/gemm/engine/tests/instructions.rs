//! Tests the semantics of the instructions, element by element.

use super::super::dots;
use super::super::kernel::{COMPONENT_WORDS, Columns, EngineState, PANEL_ROWS, Prefetch, REGISTER, Split, WORDS};
use super::super::tiles::{Emulated, Tiles};
use super::{Engine, Implementation, engines};

/// Registers `d`, `a` and `b`.
type Registers = [[u32; REGISTER]; 3];

/// Runs an instruction on loaded registers and returns its destination.
fn after<T: Tiles>(registers: &Registers, run: impl Fn(&mut T)) -> [u32; REGISTER] {
    let mut out = [0; REGISTER];
    let step = 4 * WORDS as isize;
    // SAFETY: the machine has the registers of `T`, and every row lies inside an array of `REGISTER` words.
    unsafe {
        let mut state = T::configure();
        state.load::<5>(registers[0].as_ptr().cast(), step);
        state.load::<6>(registers[1].as_ptr().cast(), step);
        state.load::<7>(registers[2].as_ptr().cast(), step);
        run(&mut state);
        state.store::<5>(out.as_mut_ptr().cast(), step);
    }
    out
}

/// Runs an instruction on every engine with tiles; the value is an iterator over the destinations.
macro_rules! on_tiles {
    ($registers:expr, |$state:ident| $run:expr) => {
        engines().iter().filter_map(|it| match it {
            Engine::Tiles(Implementation::Emulated) => Some(after::<Emulated>($registers, |$state| $run)),
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Engine::Tiles(Implementation::Native) => {
                Some(after::<super::super::tiles::Native>($registers, |$state| $run))
            }
            _ => None,
        })
    };
}

/// Packs two numbers that bf16 represents exactly.
fn pair(first: f32, second: f32) -> u32 {
    assert!((first.to_bits() | second.to_bits()) & 0xffff == 0, "{first} and {second} are bf16");
    first.to_bits() >> 16 | second.to_bits()
}

/// Returns the sum in row 3 and column 5 after a row of pairs and a column of pairs are multiplied into it.
fn of_pairs(sum: f32, a: &[[f32; 2]], b: &[[f32; 2]]) -> Vec<f32> {
    let mut registers = [[0; REGISTER]; 3];
    registers[0][3 * WORDS + 5] = sum.to_bits();
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        registers[1][3 * WORDS + at] = pair(a[0], a[1]);
        registers[2][at * WORDS + 5] = pair(b[0], b[1]);
    }
    on_tiles!(&registers, |state| state.dot_pairs::<5, 6, 7>()).map(|it| f32::from_bits(it[3 * WORDS + 5])).collect()
}

#[test]
fn pairs_are_two_chains() {
    let (big, small) = (16777216.0, 1.0);
    let tiny = f32::MIN_POSITIVE;
    type Case<'a> = (&'a str, f32, &'a [[f32; 2]], &'a [[f32; 2]], f32);
    let cases: [Case<'_>; 12] = [
        ("a sum", 1.0, &[[2.0, 3.0], [4.0, 5.0]], &[[10.0, 100.0], [1000.0, 10240.0]], 55521.0),
        // 2^24 + 1 + 1 in one chain loses both ones, and 1 + 1 in the other chain none.
        ("two chains", 0.0, &[[big, small], [small, small]], &[[1.0; 2]; 2], big + 2.0),
        ("one chain in order", 0.0, &[[small, 0.0], [small, 0.0], [big, 0.0]], &[[1.0; 2]; 3], big + 2.0),
        ("the sum comes last", big, &[[small, small]], &[[1.0; 2]], big + 2.0),
        // (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14
        ("exact products", 0.0, &[[-1.015625, 0.0], [1.0078125, 0.0]], &[[1.0, 0.0], [1.0078125, 0.0]], 1.0 / 16384.0),
        ("a denormal operand", 0.0, &[[tiny / 2.0, 0.0]], &[[big, 0.0]], 0.0),
        ("a denormal product", 0.0, &[[tiny, tiny]], &[[0.5, 0.5]], 0.0),
        ("a denormal sum", 0.0, &[[tiny, 0.0], [tiny, 0.0]], &[[1.5, 0.0], [-1.0, 0.0]], 0.0),
        ("a denormal sum of chains", 0.0, &[[tiny, tiny]], &[[1.5, -1.0]], 0.0),
        ("a denormal destination", tiny / 4.0, &[[0.0, 0.0]], &[[1.0, 1.0]], 0.0),
        ("a denormal end", -tiny, &[[tiny, 0.0]], &[[1.5, 0.0]], 0.0),
        ("an infinity", 0.0, &[[f32::INFINITY, 1.0]], &[[2.0, 1.0]], f32::INFINITY),
    ];
    for (what, sum, a, b, want) in cases {
        for got in of_pairs(sum, a, b) {
            assert_eq!(got.to_bits(), want.to_bits(), "{what}: {got} and not {want}");
        }
    }
    for (a, b) in [(f32::INFINITY, 0.0), (f32::NAN, 1.0)] {
        assert!(of_pairs(0.0, &[[a, 1.0]], &[[b, 1.0]]).iter().all(|it| it.is_nan()), "{a} * {b}");
    }
}

#[test]
fn bytes_have_signs_or_not() {
    let (a, b) = ([0x80u8, 0xff, 0x7f, 1], [0xffu8, 0x80, 0x7f, 0xfe]);
    let mut registers = [[0; REGISTER]; 3];
    registers[0][WORDS + 2] = i32::MAX as u32;
    registers[1][WORDS + 9] = u32::from_le_bytes(a);
    registers[2][9 * WORDS + 2] = u32::from_le_bytes(b);
    let signed = |it: u8| i32::from(it as i8);
    let want = |a_of: fn(u8) -> i32, b_of: fn(u8) -> i32| {
        a.iter().zip(b).fold(i32::MAX, |sum, (a, b)| sum.wrapping_add(a_of(*a) * b_of(b))) as u32
    };
    macro_rules! check {
        ($a:literal $a_of:expr, $b:literal $b_of:expr) => {
            for got in on_tiles!(&registers, |state| state.dot_quads::<5, 6, 7, $a, $b>()) {
                assert_eq!(got[WORDS + 2], want($a_of, $b_of), "{} {}", $a, $b);
                assert_eq!(got.iter().filter(|it| **it != 0).count(), 1);
            }
        };
    }
    check!(true signed, true signed);
    check!(true signed, false i32::from);
    check!(false i32::from, true signed);
    check!(false i32::from, false i32::from);
}

/// Loads, stores and products keep rows and columns apart.
#[test]
fn rows_and_columns_are_in_their_places() {
    let numbers: [u32; REGISTER] = std::array::from_fn(|it| pair((it % 13) as f32 - 6.0, (it % 7) as f32));
    let registers = [[0; REGISTER], numbers, std::array::from_fn(|it| numbers[(it * 31 + 1) % REGISTER])];
    for got in on_tiles!(&registers, |state| {
        state.dot_pairs::<5, 6, 7>();
        state.zero::<6>();
        state.dot_pairs::<5, 6, 7>();
    }) {
        for (at, got) in got.into_iter().enumerate() {
            let (row, column) = (at / WORDS, at % WORDS);
            let terms = (0..WORDS).map(|it| [registers[1][row * WORDS + it], registers[2][it * WORDS + column]]);
            let halves = |word: u32| [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)];
            let sum: f32 = terms.map(|it| it.map(halves)).map(|[a, b]| a[0] * b[0] + a[1] * b[1]).sum();
            assert_eq!(f32::from_bits(got), sum, "row {row}, column {column}");
        }
    }
}

/// The inline assembly encodes the instructions as another assembler does, with operands in the same order.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn the_processor_runs_these_instructions() {
    use super::super::tiles::Native;
    use iced_x86::{Code, Encoder, Instruction, Register};

    /// Returns the first bytes of a function.
    fn bytes(of: fn(&mut Native)) -> [u8; 64] {
        // SAFETY: code is readable on Linux, and more code of this crate follows each of these functions.
        unsafe { (of as *const [u8; 64]).read_unaligned() }
    }

    let (d, a, b) = (Register::TMM1, Register::TMM2, Register::TMM3);
    let dot = |code| Instruction::with3(code, d, a, b);
    let cases = [
        (bytes(Native::zero::<1>), Instruction::with1(Code::VEX_Tilezero_tmm, d)),
        (bytes(Native::dot_pairs::<1, 2, 3>), dot(Code::VEX_Tdpbf16ps_tmm_tmm_tmm)),
        (bytes(Native::dot_quads::<1, 2, 3, true, true>), dot(Code::VEX_Tdpbssd_tmm_tmm_tmm)),
        (bytes(Native::dot_quads::<1, 2, 3, true, false>), dot(Code::VEX_Tdpbsud_tmm_tmm_tmm)),
        (bytes(Native::dot_quads::<1, 2, 3, false, true>), dot(Code::VEX_Tdpbusd_tmm_tmm_tmm)),
        (bytes(Native::dot_quads::<1, 2, 3, false, false>), dot(Code::VEX_Tdpbuud_tmm_tmm_tmm)),
    ];
    for (bytes, instruction) in cases {
        let instruction = instruction.expect("the operands fit");
        let mut encoder = Encoder::new(64);
        encoder.encode(&instruction, 0).expect("there is an encoding");
        let code = encoder.take_buffer();
        assert!(bytes.windows(code.len()).any(|it| it == code), "{:?} {code:x?} in {bytes:x?}", instruction.code());
    }
}

/// The dot-product micro-kernel accumulates the second elements of pairs before the first ones.
#[test]
fn dot_products_are_chains_in_pairs() {
    /// Accumulates the products of two K blocks into `sums`.
    fn sums<U: EngineState>([a, b]: [&[u32]; 2], sums: &[u32]) -> Vec<u32> {
        let mut out = sums.to_vec();
        // SAFETY: the machine has the engine, both micro-panels have two K blocks, and `out` has `PANEL_ROWS` rows and
        // columns.
        unsafe {
            let kernel = U::kernel(Split::Floats([1, 1]));
            let columns = Columns::packed(b.as_ptr(), &[0, COMPONENT_WORDS], Prefetch::NONE);
            kernel(&mut U::start(), a.as_ptr(), columns, false, out.as_mut_ptr(), 4 * PANEL_ROWS as isize);
        }
        out
    }
    let (big, tiny) = (16777216.0, f32::MIN_POSITIVE);
    type Case<'a> = (&'a str, f32, [[f32; 2]; 2], [[f32; 2]; 2], f32);
    let cases: [Case<'_>; 8] = [
        ("a sum", 1.0, [[2.0, 3.0], [4.0, 5.0]], [[10.0, 100.0], [1000.0, 10240.0]], 55521.0),
        // 2^24 + 1 is 2^24, whichever is added first; 1 - 2^24 is exact.
        ("the second elements come first", big, [[-big, 1.0], [0.0; 2]], [[1.0; 2]; 2], 0.0),
        ("the first elements come last", 1.0, [[1.0, big], [0.0; 2]], [[1.0, -1.0], [1.0; 2]], 2.0 - big),
        ("pairs in order", 1.0, [[0.0, big], [-big, 1.0]], [[1.0; 2]; 2], 0.0),
        ("a denormal operand", 0.0, [[tiny / 2.0, 0.0], [0.0; 2]], [[big, 0.0], [0.0; 2]], 0.0),
        ("a denormal product", 0.0, [[tiny, tiny], [0.0; 2]], [[0.5, 0.5], [0.0; 2]], 0.0),
        ("a denormal sum", 0.0, [[0.0, tiny], [tiny, 0.0]], [[0.0, 1.5], [-1.0, 0.0]], 0.0),
        ("a sum that was denormal", tiny / 4.0, [[0.0; 2]; 2], [[1.0; 2]; 2], 0.0),
    ];
    for (number, (what, sum, of_row, of_column, want)) in cases.into_iter().enumerate() {
        // Every case has its own row and column; its pairs are in both K blocks.
        let (row, column, pairs) = (number * 5 % PANEL_ROWS, number * 7 % PANEL_ROWS, [(0, number), (1, number * 2)]);
        let [mut a, mut b] = [vec![0; 2 * COMPONENT_WORDS], vec![0; 2 * COMPONENT_WORDS]];
        for ((k_block, at), (x, y)) in pairs.into_iter().zip(of_row.into_iter().zip(of_column)) {
            a[k_block * COMPONENT_WORDS + row * WORDS + at] = pair(x[0], x[1]);
            b[k_block * COMPONENT_WORDS + column / WORDS * REGISTER + at * WORDS + column % WORDS] = pair(y[0], y[1]);
        }
        let mut start = vec![0; PANEL_ROWS * PANEL_ROWS];
        start[row * PANEL_ROWS + column] = sum.to_bits();
        for it in engines() {
            let sums = match it {
                Engine::Dots(Implementation::Emulated) => sums::<dots::Emulated>([&a, &b], &start),
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Engine::Dots(Implementation::Native) => sums::<dots::Native>([&a, &b], &start),
                _ => continue,
            };
            let got = f32::from_bits(sums[row * PANEL_ROWS + column]);
            assert_eq!(got.to_bits(), want.to_bits(), "{what} on {it:?}: {got} and not {want}");
            let others = sums.iter().enumerate().filter(|(at, it)| *at != row * PANEL_ROWS + column && **it != 0);
            assert_eq!(others.count(), 0, "{what} on {it:?}");
        }
    }
}
