use super::super::names::Head;
use crate::data::DType;
use crate::error::Code;
use crate::random::mutate;
use crate::testing::{Random, elementwise, repeated, staged};
use crate::{Inst, Kernel};

fn read(text: &str) -> Kernel {
    Kernel::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Generates a random kernel with constants of random bits.
fn kernel(random: &mut Random<'_>) -> Kernel {
    let steps = random.pick(&[1, 10, 40]);
    let narrow = random.below(2) == 0;
    let mut kernel = match random.below(3) {
        0 => elementwise(random, steps, narrow),
        1 => staged(random, steps),
        _ => repeated(random, steps, narrow),
    };
    for (inst, dtype) in kernel.insts.iter_mut().zip(&kernel.types) {
        if let Inst::Const(bits) = inst
            && random.below(2) == 0
        {
            *bits = match dtype {
                DType::Bool => random.bits() & 1,
                DType::F32 => (random.bits() & 0xffff_ffff) | random.pick(&[0, 0x7f80_0000]),
                DType::F64 => random.bits() | random.pick(&[0, 0x7ff0_0000_0000_0000]),
                _ => random.bits() & (u64::MAX >> (64 - 8 * dtype.size())),
            };
        }
    }
    kernel
}

#[test]
fn random_kernels_come_back_exactly() {
    for seed in 0..1000 {
        let kernel = kernel(&mut Random::Seed(seed));
        assert!(kernel.check().is_ok(), "seed {seed}\n{kernel}");
        let text = kernel.to_string();
        assert_eq!(read(&text), kernel, "seed {seed}\n{text}");
    }
}

#[test]
fn everything_has_a_text() {
    let text = "\
kernel par=2 lanes=reduced seq=1
  in %0: f32 unit
  in %1: bool any
  in %2: i8 zero
  out %3: f16 unit
  out %4: i64 zero
  indexed %5: bf16 any
  imm %6: u8
  point:
    v0 = load %0
    v1 = const f32 -0.0
    v2 = const f32 nan:0xffc00001
    v3 = const f64 -inf
    v4 = const f64 0.1
    v5 = const u64 18446744073709551615
    v6 = const bool true
    v7 = load %1
    v8 = load %6
  loop:
    v9 = fma v0, v1, v2
    v10 = bitcast v9
    v11 = index 3
    v12 = round_even v9
    v13 = cast v12 to f16
    store %3, v13
    v15 = lt v9, v0
    v16 = gather %5, v11
    v17 = exp v16
    v18 = pow v17, v0
    v19 = reduce max v18
    v20 = reduce sum v11
    v21 = reduce any v7
  loop:
  point:
    store %4, v20
";
    let kernel = read(text);
    assert_eq!(kernel.to_string(), text);
    let types = [DType::I32, DType::I64, DType::F32, DType::F32, DType::F32, DType::Bool, DType::F32];
    assert_eq!(kernel.types[10..17], types);
    assert!(kernel.check().is_ok());
}

#[test]
fn names_are_free_and_space_has_no_meaning() {
    let text = "kernel par = 1 lanes=parallel seq=0 in%x:f32 unit out %the.sum:f32 unit // twice
        point: x=load%x twice=add x,x store %the.sum,twice";
    let want = "\
kernel par=1 lanes=parallel seq=0
  in %0: f32 unit
  out %1: f32 unit
  point:
    v0 = load %0
    v1 = add v0, v0
    store %1, v1
";
    assert_eq!(read(text).to_string(), want);
}

#[test]
fn a_name_means_one_instruction() {
    for head in Head::all() {
        assert_eq!(Head::from_name(head.name()), Some(head));
    }
}

/// Errors state their positions.
#[test]
fn errors_say_what_was_expected() {
    let with = |rest: &str| format!("kernel par=0 lanes=parallel seq=0\nin %x: f32 unit\nout %y: i8 zero\n{rest}");
    let cases = [
        (String::new(), "1, column 1: expected `kernel`, found the end of the text"),
        ("kernel par 1".into(), "1, column 12: expected `=` (its value), found `1`"),
        ("kernel par=256".into(), "1, column 12: expected a number from 0 to 255"),
        ("kernel par=0 lanes=both".into(), "1, column 20: expected `parallel` or `reduced`, found `both`"),
        (
            "kernel par=0 lanes=reduced seq=0 x".into(),
            "column 34: expected `in`, `indexed`, `out`, `reloaded`, `scratch`, `pos`, `imm`, or a stage, `point`, `loop` or `repeat`",
        ),
        (with("in x"), "4, column 4: expected a buffer such as `%0`, found `x`"),
        (with("in %z: f31 unit"), "4, column 8: expected a dtype, found `f31`"),
        (with("in %z: f32 one"), "4, column 12: expected `unit`, `zero` or `any`, found `one`"),
        (with("in %x: f32 any"), "4, column 4: `%x` is defined twice"),
        (with("v0 = load %x"), "4, column 1: expected a stage, `point`, `loop` or `repeat`, found `v0`"),
        (with("point: loop: end"), "4, column 17: expected `=` (the value's instruction), found the end of the text"),
        (with("point: ="), "4, column 8: expected an instruction or a stage, found `=`"),
        (with("point:\n v0 = dance v0"), "5, column 7: expected an instruction, found `dance`"),
        (with("point:\n v0 = store %y, v0"), "5, column 7: expected an instruction, found `store`"),
        (with("point:\n load %x"), "5, column 7: expected `=` (the value's instruction), found `%x`"),
        (with("point:\n v0 = load %z"), "5, column 12: there is no buffer `%z`"),
        (with("point:\n v0 = neg v0"), "5, column 11: `v0` is not defined before this"),
        (with("point: v0 = load %x v0 = load %x"), "4, column 21: `v0` is defined twice"),
        (with("point: v0 = load %x v1 = add v0"), "expected `,` (the next operand), found the end of the text"),
        (with("point: v0 = load %x v1 = cast v0 i8"), "4, column 34: expected `to`, found `i8`"),
        (with("point: v0 = load %x v1 = reduce mean v0"), "4, column 33: expected a reducer, found `mean`"),
        (with("point: v0 = load %x v1 = next v0, v0"), "4, column 26: expected an instruction, found `next`"),
        (with("repeat: while v0"), "4, column 15: `v0` is not defined before this"),
        (with("point: v0 = const i8 128"), "4, column 22: expected an element of i8, found `128`"),
        (with("point: v0 = const f32 nan:0x1"), "4, column 23: these are not the bits of a nan of f32"),
        (with("point: v0 = load %x v1 = gather %x"), "expected `,` (the position), found the end of the text"),
        (with("point: v0 = index -1"), "4, column 19: expected a number from 0 to 255"),
        (with("point: v0 = const u32 1 v1 = bitcast v0"), "4, column 30: this dtype has no bitcast"),
    ];
    for (text, want) in cases {
        let error = Kernel::parse(&text).expect_err(&text);
        assert_eq!(error.code(), Code::Parse, "{text}");
        assert!(error.to_string().contains(want), "{error}\n{text}\n{want}");
    }
}

/// Mutated text is an error or a kernel; neither reading nor checking and printing it panics.
#[test]
fn mutated_text_does_not_panic() {
    let pieces =
        ["%0", "v1", "=", ":", ",", "point", "loop:", "store", "cast", "to", "bool", "f64", "nan:0x", "-", "é"];
    for seed in 0..3000 {
        let random = &mut Random::Seed(seed);
        let mut text = kernel(random).to_string();
        mutate(random, &mut text, &pieces);
        if let Ok(kernel) = Kernel::parse(&text) {
            let well_formed = kernel.check().is_ok();
            let printed = kernel.to_string();
            let again = read(&printed);
            assert_eq!(again.to_string(), printed, "seed {seed}");
            assert!(!well_formed || again == kernel, "seed {seed}");
        }
    }
}
