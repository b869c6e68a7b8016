//! Tests convolutions and their gradients on matrix engines: emulated everywhere, and native where the processor has
//! one.

use super::{Case, PLAIN, array, check_with, numbers, result, wide};
use half::bf16;
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs, DType};
use ms_ops::ops::{self, OpDef};
use ms_ops::tensor::{Parameter, Tensor};
use ms_x64::Isa;
use ms_x64::gemm::testing::{UNIFORM, errors_of};
use ms_x64::gemm::testing::{check_threads, hash};
use ms_x64::gemm::testing::{components, engines, engines_for, floats, split, sum_on};
use ms_x64::gemm::{Arithmetic, Engine, Implementation};
use ms_x64::threads;

const RELAXED: [Precision; 3] = [Precision::Highest, Precision::High, Precision::Medium];

pub fn on(engine: Engine, precision: Precision) -> Arithmetic {
    Arithmetic::new(Isa::detect(), precision).on(engine)
}

/// Returns input, weights and a gradient of the result.
pub fn operands(case: &Case, dtype: DType) -> [Array; 3] {
    [(case.x, 1), (case.w, 2), (case.output(), 3)].map(|(shape, seed)| numbers(&shape, dtype, seed))
}

/// Returns convolutions with more output channels of a group than direct convolution takes.
fn cases() -> [(Case, &'static [Precision]); 9] {
    let [all, one, two]: [&[Precision]; 3] = [&RELAXED, &[Precision::Highest], &[Precision::High]];
    [
        (Case { x: [2, 3, 7, 6], w: [33, 3, 3, 3], before: [1, 0], after: [1, 2], ..PLAIN }, all),
        // Pointwise; two groups of outputs that do not fill a micro-panel.
        (Case { x: [3, 5, 4, 9], w: [40, 5, 1, 1], ..PLAIN }, one),
        (Case { x: [2, 6, 5, 7], w: [70, 3, 1, 1], groups: 2, ..PLAIN }, two),
        (Case { x: [1, 2, 9, 8], w: [34, 2, 5, 5], dilation: [2, 1], before: [2; 2], after: [2; 2], ..PLAIN }, two),
        (Case { x: [1, 2, 15, 13], w: [33, 2, 7, 7], stride: [2; 2], before: [3; 2], after: [3; 2], ..PLAIN }, two),
        // Tasks with output positions of several images.
        (Case { x: [9, 3, 5, 5], w: [99, 1, 3, 3], groups: 3, ..PLAIN }, one),
        // Whole micro-panels.
        (Case { x: [1, 4, 8, 8], w: [64, 4, 2, 4], before: [1, 2], after: [0, 1], ..PLAIN }, two),
        // More K blocks than are packed at once.
        (Case { x: [1, 60, 3, 4], w: [33, 60, 3, 3], ..PLAIN }, one),
        // More output positions than one chunk.
        (Case { x: [4, 1, 17, 18], w: [33, 1, 2, 3], ..PLAIN }, two),
    ]
}

/// Compares bits with the specified order of sums, on one thread and on several.
#[test]
fn sums_are_those_of_engines() {
    let sum = |engine: Engine, terms: &super::Terms, components: usize| {
        let lines =
            |of: fn(&(f64, f64)) -> f64| terms.iter().map(|it| split(of(it) as f32, components)).collect::<Vec<_>>();
        f64::from(sum_on(engine, &lines(|it| it.1), &lines(|it| it.0), [components; 2]))
    };
    for (case, precisions) in &cases() {
        let of_bf16 = (DType::BF16, *precisions.last().expect("there is one"));
        for (dtype, precision) in precisions.iter().map(|&it| (DType::F32, it)).chain([of_bf16]) {
            let [x, w, g] = operands(case, dtype);
            let components = components(dtype, precision);
            for it in engines_for([components; 2]) {
                for (def, attrs, inputs, mut want) in case.ops([&x, &w, &g], &|terms| sum(it, terms, components)) {
                    if dtype == DType::BF16 {
                        want.iter_mut().for_each(|it| *it = bf16::from_f32(*it as f32).to_f64());
                    }
                    check_with(on(it, precision), def, &attrs, inputs, &want);
                    let chains = wide(&result(on(Engine::None, precision), def, &attrs, inputs));
                    assert!(dtype == DType::BF16 || chains != want, "{} ran on no unit", def.name());
                }
            }
        }
    }
}

/// The shapes of input and weights.
pub type Shapes = [&'static [usize]; 2];

/// Returns the three ops of a convolution whose axes all have the same stride, dilation and padding.
pub fn ops_of(
    [x, w]: [&[usize]; 2],
    [stride, dilation, padding]: [usize; 3],
    groups: usize,
) -> [(&'static OpDef, Attrs, [Vec<usize>; 2]); 3] {
    let axes = x.len() - 2;
    let attrs = |sizes: Option<&[usize]>| {
        let lists = [stride, dilation, padding, padding].map(|it| Attr::from(&*vec![it; axes]));
        Attrs::new(lists.into_iter().chain([groups.into()]).chain(sizes.map(Attr::from)))
    };
    let count = |axis: usize| (x[axis] + 2 * padding - (w[axis] - 1) * dilation - 1) / stride + 1;
    let g: Vec<usize> = [x[0], w[0]].into_iter().chain((2..x.len()).map(count)).collect();
    [
        (&ops::CONV, attrs(None), [x.to_vec(), w.to_vec()]),
        (&ops::CONV_INPUT_GRAD, attrs(Some(&x[2..])), [g.clone(), w.to_vec()]),
        (&ops::CONV_WEIGHT_GRAD, attrs(Some(&w[2..])), [x.to_vec(), g]),
    ]
}

/// Returns the errors of an op relative to the sums of magnitudes; the reference sums in f64.
pub fn errors(arithmetic: Arithmetic, def: &'static OpDef, attrs: &Attrs, [a, b]: [&Array; 2]) -> [f64; 2] {
    let reference = |of: fn(f64) -> f64| {
        let wide = |it: &Array| array(it.shape(), DType::F64, &wide(it).into_iter().map(of).collect::<Vec<_>>());
        let results = (def.eval)(attrs, &[&wide(a), &wide(b)]).expect("the operands fit");
        super::wide(&results[0])
    };
    let sums: Vec<_> = reference(|it| it).into_iter().zip(reference(f64::abs)).map(|(it, all)| [it, all]).collect();
    errors_of(&floats(&result(arithmetic, def, attrs, [a, b])), &sums)
}

/// Bounds the errors of short sums, which do not cancel as in long ones. The bounds are what the split loses of both
/// factors, plus the roundings of the sum.
#[test]
fn every_number_of_axes() {
    const BOUNDS: [f64; 3] = [4e-7, 5e-5, 8e-3];
    let cases: [(Shapes, [usize; 3], usize); 9] = [
        ([&[2, 5, 40], &[33, 5, 5]], [1, 2, 2], 1),
        ([&[3, 66, 9], &[66, 33, 1]], [1, 1, 0], 2),
        ([&[1, 2, 6, 5, 4], &[34, 2, 3, 2, 3]], [1, 1, 1], 1),
        ([&[1, 4, 5, 7, 6], &[66, 2, 2, 3, 2]], [2, 1, 1], 2),
        ([&[2, 3, 9, 9], &[35, 3, 7, 7]], [2, 1, 3], 1),
        // Channel-blocked.
        ([&[3, 64, 41], &[33, 64, 5]], [1, 2, 3], 1),
        ([&[2, 60, 40], &[66, 30, 2]], [2, 1, 0], 2),
        ([&[1, 32, 5, 4, 6], &[34, 32, 2, 3, 2]], [1, 1, 1], 1),
        ([&[2, 32, 6, 7, 9], &[5, 32, 3, 2, 3]], [2, 1, 1], 1),
    ];
    for ((shapes, window, groups), &it) in cases.iter().flat_map(|case| engines().iter().map(move |it| (*case, it))) {
        for (def, attrs, [a, b]) in ops_of(shapes, window, groups) {
            let (a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
            for (precision, bound) in RELAXED.into_iter().zip(BOUNDS) {
                let [most, _] = errors(on(it, precision), def, &attrs, [&a, &b]);
                assert!(most <= bound, "{} of {shapes:?} in {precision} on {it:?}: {most:e}", def.name());
            }
        }
    }
}

/// Sums of 1,024 products, or of more in backward-data, are as exact as in a GEMM.
#[test]
fn errors_are_those_of_products() {
    // A convolution with so long sums, and the index of the op that has them.
    let cases: [(Shapes, usize); 3] = [
        ([&[1, 64, 6, 6], &[40, 64, 4, 4]], 0),
        ([&[1, 3, 8, 9], &[1024, 3, 2, 1]], 1),
        ([&[16, 5, 9, 9], &[40, 5, 2, 2]], 2),
    ];
    for ((shapes, which), &it) in cases.iter().flat_map(|case| engines().iter().map(move |it| (*case, it))) {
        let (def, attrs, [a, b]) = ops_of(shapes, [1, 1, 0], 1).into_iter().nth(which).expect("it is one of three");
        let (a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
        let has_bounds = |precision| {
            precision == Precision::Strict || engines_for([components(DType::F32, precision); 2]).any(|of| of == it)
        };
        for (precision, bounds) in Precision::ALL.into_iter().zip(UNIFORM).filter(|it| has_bounds(it.0)) {
            let found = errors(on(it, precision), def, &attrs, [&a, &b]);
            println!("{} in {precision} on {it:?}: {:.1e} {:.1e}", def.name(), found[0], found[1]);
            let is_within = found[0] <= bounds[0] && found[1] <= bounds[1];
            assert!(is_within, "{} in {precision} on {it:?}: {found:?}, not {bounds:?}", def.name());
        }
    }
}

/// A single element outside the engine's range, wherever it is, makes the whole op avoid the engine.
#[test]
fn operands_that_components_do_not_represent() {
    let special = [
        (f64::INFINITY, true),
        (f64::NAN, true),
        (f32::from_bits(0x7f7f_8000).into(), true),
        (2f64.powi(-103), true),
        (2f64.powi(-102), false),
        (0.0, false),
    ];
    for (def, attrs, shapes) in ops_of([&[3, 4, 9, 9], &[66, 2, 3, 3]], [1, 1, 1], 2) {
        let plain = [0, 1].map(|it| numbers(&shapes[it], DType::F32, it as u64));
        for ((number, is_refused), operand) in special.into_iter().flat_map(|it| [(it, 0), (it, 1)]) {
            let mut elements = wide(&plain[operand]);
            let last = elements.len() - 1;
            elements[last] = number;
            let other = array(&shapes[operand], DType::F32, &elements);
            let inputs = if operand == 0 { [&other, &plain[1]] } else { [&plain[0], &other] };
            for it in engines_for([3; 2]) {
                let of = |engine| hash(&result(on(engine, Precision::Highest), def, &attrs, inputs));
                let what = format!("{} with {number:e} in operand {operand} on {it:?}", def.name());
                assert_eq!(of(it) == of(Engine::None), is_refused, "{what}");
            }
        }
    }
}

/// Strict sums and other types avoid the engine.
#[test]
fn products_that_engines_do_not_support() {
    let of_no_unit = [
        (Precision::Strict, DType::F32),
        (Precision::Strict, DType::BF16),
        (Precision::Medium, DType::F16),
        (Precision::Highest, DType::F64),
    ];
    for (precision, dtype) in of_no_unit {
        for (def, attrs, [a, b]) in ops_of([&[2, 3, 7, 6], &[33, 3, 3, 3]], [1, 1, 0], 1) {
            let (a, b) = (numbers(&a, dtype, 1), numbers(&b, dtype, 2));
            let [with, without] = [Engine::Tiles(Implementation::Emulated), Engine::None]
                .map(|it| hash(&result(on(it, precision), def, &attrs, [&a, &b])));
            assert_eq!(with, without, "{} of {dtype} in {precision}", def.name());
        }
    }
}

/// A parameter's weights are packed once for each op.
#[test]
fn cached_weights_change_no_bit() {
    for (groups, channels) in [(1, 3), (2, 3), (1, 32), (2, 30)] {
        let case =
            Case { x: [2, channels * groups, 7, 6], w: [35 * groups, channels, 3, 3], before: [1; 2], groups, ..PLAIN };
        for (dtype, precision) in [(DType::F32, Precision::Highest), (DType::F32, Precision::Medium)] {
            let [x, w, g] = operands(&case, dtype);
            let ops = &case.ops([&x, &w, &g], &|_| 0.0)[..2];
            for engine in engines_for([components(dtype, precision); 2]) {
                let of = |def, attrs, inputs| hash(&result(on(engine, precision), def, attrs, inputs));
                let all = || ops.iter().map(|(def, attrs, inputs, _)| of(def, attrs, *inputs));
                let want: Vec<_> = all().collect();
                let slot = Parameter::new(Tensor::from_array(w.clone()), "");
                for call in 0..5 {
                    assert!(
                        all().eq(want.iter().cloned()),
                        "{channels} channels in {groups} groups in {precision} on {engine:?}, call {call}"
                    );
                }
                assert_eq!(
                    w.storage().forms(),
                    3,
                    "a range and two packed ones, {channels} channels in {groups} groups"
                );
                drop(slot);
            }
        }
    }
}

/// Convolutions run on the engine of the instruction set if they are large enough, and on no other engine.
#[test]
fn large_convolutions_run_on_engines() {
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        let sizes: [(Shapes, Engine); 3] = [
            ([&[2, 128, 8, 9], &[128, 128, 1, 1]], Engine::of(isa)),
            ([&[2, 128, 8, 9], &[63, 128, 1, 1]], Engine::None),
            ([&[2, 63, 8, 9], &[128, 63, 1, 1]], Engine::None),
        ];
        for (shapes, want) in sizes {
            for (def, attrs, [a, b]) in ops_of(shapes, [1, 1, 0], 1) {
                let (a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
                let own = Arithmetic::new(isa, Precision::Medium);
                let [got, want] = [own, own.on(want)].map(|it| hash(&result(it, def, &attrs, [&a, &b])));
                assert_eq!(got, want, "{} of {shapes:?} on {isa}", def.name());
            }
        }
    }
}

#[test]
#[ignore = "`results_do_not_depend_on_threads` starts it, once for each number of threads"]
fn in_a_process() {
    println!("threads {}", threads::count());
    let cases: [(Shapes, usize, usize); 5] = [
        ([&[3, 4, 9, 10], &[40, 4, 3, 3]], 1, 1),
        // Tasks with output positions of several images.
        ([&[12, 4, 5, 5], &[66, 2, 3, 3]], 0, 2),
        ([&[2, 33, 9, 8], &[66, 33, 1, 1]], 0, 1),
        // Channel-blocked: tasks with some micro-panels, and with tiles of some images.
        ([&[1, 64, 7, 7], &[98, 64, 3, 3]], 1, 1),
        ([&[5, 60, 9, 9], &[66, 30, 2, 2]], 0, 2),
    ];
    // An infinity in one image, which some tasks do not read.
    let cases = cases.iter().flat_map(|case| [false, true].map(|is_special| (case, is_special)));
    for ((&(shapes, padding, groups), is_special), &it) in
        cases.flat_map(|it| engines().iter().map(move |engine| (it, engine)))
    {
        for (def, attrs, [a, b]) in ops_of(shapes, [1, 1, padding], groups) {
            let (mut a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
            if is_special {
                a.as_mut_slice::<f32>()[0] = f32::INFINITY;
            }
            for precision in [Precision::High, Precision::Medium] {
                println!("{it:?} {:x}", hash(&result(on(it, precision), def, &attrs, [&a, &b])));
            }
        }
    }
    // Winograd, with tasks of rows of patches and with tasks of output channels.
    let of_winograd: [Shapes; 2] = [[&[2, 48, 26, 24], &[48, 48, 3, 3]], [&[1, 520, 9, 10], &[500, 520, 3, 3]]];
    for (shapes, precision) in of_winograd.iter().flat_map(|it| [(it, Precision::Highest), (it, Precision::Strict)]) {
        for (def, attrs, [a, b]) in ops_of(*shapes, [1, 1, 1], 1).into_iter().take(2) {
            let (a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
            let it = Arithmetic::new(Isa::detect(), precision);
            println!("{precision} {:x}", hash(&result(it, def, &attrs, [&a, &b])));
        }
    }
    // No engine and no im2col buffer: vectors of output positions, and of images.
    let of_vectors: [Shapes; 3] =
        [[&[1, 40, 9, 9], &[36, 40, 3, 3]], [&[19, 5, 6, 6], &[9, 5, 3, 3]], [&[1, 4, 43, 41], &[40, 4, 2, 3]]];
    for shapes in of_vectors {
        for (def, attrs, [a, b]) in ops_of(shapes, [1, 1, 1], 1) {
            let (a, b) = (numbers(&a, DType::F32, 1), numbers(&b, DType::F32, 2));
            let it = on(Engine::None, Precision::Strict);
            println!("{:?} {:x}", Engine::None, hash(&result(it, def, &attrs, [&a, &b])));
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    check_threads("library::conv::tests::engines::in_a_process");
}
