//! Runs MindSpore's tests of side effects, by their numbers in the list of conformance cases.
//!
//! Each test has the same result eagerly, compiled, and compiled again, on numbers and on vectors of one element.
//! Numbers are f32 where MindSpore has integers.

use ms::Level;
use ms::prelude::*;

/// The parameters and the inputs of a case.
struct Given {
    p: Parameter,
    q: Parameter,
    r: Parameter,
    x: Vec<Tensor>,
}

impl Given {
    fn new(parameters: [f32; 3], inputs: &[f32], shape: &[usize]) -> Self {
        let [p, q, r] = parameters.map(|it| Parameter::new(Tensor::full(shape, it), ""));
        Self { p, q, r, x: inputs.iter().map(|&it| Tensor::full(shape, it)).collect() }
    }
}

/// The result of a case, and the lines that it prints.
type Seen = (Vec<f32>, Vec<String>);

type Body = fn(&Parameter, &Parameter, &Parameter, &[Tensor]) -> Vec<Tensor>;

fn run(body: Body, given: &Given) -> Seen {
    let (given, lines) = ops::capture_prints(|| body(&given.p, &given.q, &given.r, &given.x));
    // Vectors print their numbers as `[9.]`.
    let lines = lines.iter().map(|it| it.replace(".]", ".0").replace('[', "")).collect();
    (given.iter().map(|it| it.item::<f32>()).collect(), lines)
}

macro_rules! cases {
    ($($number:literal $name:ident($p:ident = $pv:expr, $q:ident = $qv:expr, $r:ident = $rv:expr; $x:ident = $xv:expr)
        $body:block gives $want:expr $(, prints $lines:expr)?;)*) => {
        $(
            #[jit]
            #[allow(unused_variables, reason = "cases take all parameters")]
            fn $name($p: &Parameter, $q: &Parameter, $r: &Parameter, $x: &[Tensor]) -> Vec<Tensor> $body
        )*

        #[test]
        fn cases_give_the_same_in_every_mode() {
            $({
                #[allow(unused_mut, unused_assignments, reason = "most print nothing")]
                let mut lines: Vec<String> = vec![];
                $(lines = $lines.iter().map(|it: &&str| it.to_string()).collect();)?
                let want: Seen = ($want.to_vec(), lines);
                let shapes: [&[usize]; 2] = [&[], &[1]];
                let ways = [("eagerly", false), ("compiled", true), ("compiled again", true)];
                for (shape, (how, jit)) in shapes.into_iter().flat_map(|shape| ways.map(|it| (shape, it))) {
                    let given = Given::new([$pv, $qv, $rv], &$xv, shape);
                    let context = ms::Context { jit, ..ms::context() };
                    let body = |p: &Parameter, q: &Parameter, r: &Parameter, x: &[Tensor]| $name(p, q, r, x);
                    let got = ms::with_context(context, || run(body, &given));
                    assert_eq!(got, want, "case {} {}, {how}, {shape:?}", $number, stringify!($name));
                }
            })*
        }
    };
}

/// Writes `p`, and returns true.
fn check(p: &Parameter, x: &Tensor, y: &Tensor) -> bool {
    p.set(&(x + y));
    true
}

fn twice(p: &Parameter, w: &Tensor) {
    p.set(&(w * 2.0));
}

cases! {
    1 assign(p = 1., q = 0., r = 0.; x = [3.]) { p.set(&x[0]); vec![p.value()] } gives [3.];
    3 write_after_read(p = 1., q = 5., r = 0.; x = [3., 4.]) {
        p.set(&(&x[1] + &x[0]));
        p.set(&x[1]);
        vec![p - q]
    } gives [-1.];
    4 read_after_write(p = 1., q = 0., r = 0.; x = [3., 4.]) {
        p.set(&(p + &x[0]));
        p.set(&(&x[0] + &x[1]));
        vec![p.value()]
    } gives [7.];
    5 assign_if(p = 1., q = 0., r = 0.; x = [3., 4.]) {
        if &x[0] < &x[1] { p.set(&x[0]); } else { p.set(&x[1]); }
        vec![p.value()]
    } gives [3.];
    6 assign_while(p = 1., q = 0., r = 0.; x = [2., 14.]) {
        let y = &x[1] + 4.0;
        let mut x = x[0].clone();
        while x < y {
            x = x + 1.0;
            p.set(&x);
        }
        p.set(&(x - 1.0));
        vec![p.value()]
    } gives [17.];
    7 assign_for(p = 1., q = 0., r = 0.; x = [2., 3.]) {
        let y = &x[1] + 4.0;
        let mut x = x[0].clone();
        for _ in 0..5 {
            x = x + &y;
            p.set(&x);
        }
        vec![p.value()]
    } gives [37.];
    9 multi_assign(p = 0., q = 0., r = 0.; x = [4., 5., 6.]) {
        p.set(&x[0]);
        q.set(&x[1]);
        r.set(&x[2]);
        vec![p + q + r]
    } gives [15.];
    10 multi_assign_add(p = 1., q = 3., r = 0.; x = [9.]) {
        p.set(&x[0]);
        let o = &x[0] + p + q;
        q.set(&x[0]);
        vec![o + p + q]
    } gives [39.];
    11 multi_assign_print(p = 0., q = 0., r = 0.; x = [9.]) {
        p.set(&x[0]);
        q.set(&x[0].square());
        ms::print!("{} {} {}", &x[0], p, q);
        vec![p.value(), q.value()]
    } gives [9., 81.], prints ["9.0 9.0 81.0"];
    14 isolated_call(p = 0., q = 0., r = 0.; x = [4., 5.]) {
        let set_q = |y: &Tensor| q.set(y);
        let set_both = |x: &Tensor, y: &Tensor| { p.set(x); set_q(y); };
        set_both(&x[0], &x[1]);
        vec![p + q]
    } gives [9.];
    15 assign_and_return_true(p = 1., q = 0., r = 0.; x = [2., 3.]) {
        let out = if check(p, &x[0], &x[1]) { &x[0] + &x[1] } else { &x[0] - &x[1] };
        vec![p + out]
    } gives [10.];
    16 effectful_argument(p = 1., q = 0., r = 0.; x = [2., 3.]) {
        let call = |f: &dyn Fn(&Tensor, &Tensor) -> bool| f(&x[0], &x[1]);
        call(&|x, y| check(p, x, y));
        vec![p + 1.0]
    } gives [6.];
    17 tuple_of_tuple(p = 1., q = 0., r = 0.; x = [2., 3.]) {
        let inner = (|x: &Tensor, y: &Tensor| check(p, x, y), &x[0]);
        let outer = (inner, &x[1]);
        (outer.0.0)(outer.1, outer.0.1);
        vec![p + 1.0]
    } gives [6.];
    18 write_read_write(p = 0., q = 0., r = 0.; x = [3., 4., 5., 6.]) {
        p.set(&x[0]);
        q.set(&x[1]);
        let a = p + q;
        p.set(&x[2]);
        q.set(&x[3]);
        vec![a + p + q]
    } gives [18.];
    19 outer_variable(p = 1., q = 0., r = 0.; x = [2., 3.]) {
        let b = p + &x[0];
        let mut a = p + &b;
        let skipped = false;
        if !skipped { a = a + &x[1]; }
        vec![a + b]
    } gives [10.];
    23 print_assign_print(p = 1., q = 0., r = 0.; x = [3.]) {
        let alias = p;
        ms::print!("{}", alias);
        let f = || { p.set(&(p * 5.0)); p + 5.0 };
        let result = f();
        ms::print!("{}", &result);
        ms::print!("{}", alias);
        p.set(&x[0]);
        ms::print!("{}", alias);
        vec![result]
    } gives [10.], prints ["1.0", "10.0", "5.0", "3.0"];
    24 print_assign_print_with_gradient(p = 1., q = 0., r = 0.; x = [3.]) {
        let (value, gradient) = ms::value_and_grad(|x: &Tensor| {
            ms::print!("{}", p);
            p.set(&(p * 5.0));
            ms::print!("{} {}", &(p + 5.0), p);
            p.set(x);
            ms::print!("{}", p);
            x * 1.0
        })(&x[0]);
        vec![value, gradient]
    } gives [3., 1.], prints ["1.0", "10.0 5.0", "3.0"];
    25 print_while(p = 0., q = 0., r = 0.; x = [1., 4.]) {
        let (mut a, b) = (x[0].clone(), &x[1]);
        ms::print!("{} {}", &a, b);
        while &a < b {
            ms::print!("{} {}", &a, b);
            a = a + 1.0;
        }
        vec![a]
    } gives [4.], prints ["1.0 4.0", "1.0 4.0", "2.0 4.0", "3.0 4.0"];
    26 print_assign_if(p = 1., q = 0., r = 0.; x = [3., 4.]) {
        let mut a = x[0].clone();
        ms::print!("{} {} {}", &a, &x[1], p);
        p.set(&a);
        if &a < &x[1] {
            a = p + 1.0;
            ms::print!("{} {} {}", &a, &x[1], p);
        }
        vec![a]
    } gives [4.], prints ["3.0 4.0 1.0", "4.0 4.0 3.0"];
    27 nothing_but_an_effect(p = 0., q = 0., r = 0.; x = [2.]) { twice(p, &x[0]); vec![p.value()] } gives [4.];
    28 effects_of_several_functions(p = 0., q = 0., r = 0.; x = [2.]) {
        let f = |w: &Tensor| { p.set(&(w * 2.0)); q.set(&(w * 4.0)); r.set(&(w * 6.0)); };
        f(&x[0]);
        vec![&x[0] * 2.0, r.value()]
    } gives [4., 12.];
    30 assigns_by_a_helper(p = 0., q = 0., r = 0.; x = [2.]) {
        let f = |k: f64| p.set(&(&x[0] * k));
        f(2.0);
        f(3.0);
        vec![p.value()]
    } gives [6.];
    32 loop_of_assigns_with_gradient(p = 0., q = 0., r = 0.; x = [1.]) {
        let looped = |x: &Tensor| {
            let (mut i, mut out) = (x * 0.0, x * 0.0);
            while i < 3.0 {
                p.set(&i);
                out = x * p + out;
                i = i + 1.0;
            }
            out
        };
        let (value, gradient) = ms::value_and_grad(looped)(&x[0]);
        vec![value, gradient]
    } gives [3., 3.];
    35 load_eliminate(p = 0., q = 0., r = 0.; x = [2.]) {
        let o = p.value();
        p.set(&(&x[0] * 0.0));
        let o = x[0].square() + p + o;
        p.set(&(&x[0] * 0.0 + 1.0));
        vec![p + o]
    } gives [5.];
    38 assigned_outside(p = 1., q = 2., r = 0.; x = [3., 5.]) {
        let inner = |x: &Tensor| {
            p.set(x);
            (p, q)
        };
        let (a, b) = inner(&x[0]);
        let first = a + b;
        a.set(&x[1]);
        let second = a + b;
        b.set(&(&x[1] * 2.0));
        vec![first + second, a + b]
    } gives [12., 15.];
    40 snapshots_from_a_branch(p = 1., q = 2., r = 0.; x = [3., 5.]) {
        let inner = |x: &Tensor| if x > 0.0 { (p.value(), x * 0.0 + 3.0) } else { (q.value(), x * 0.0 + 4.0) };
        let (a, b) = inner(&x[0]);
        p.set(&x[1]);
        vec![&a + &b + &x[1], &a + &b, p.value()]
    } gives [9., 4., 5.];
    41 two_assigns_and_two_sums(p = 1., q = 3., r = 0.; x = [9.]) {
        p.set(&x[0]);
        let out = &x[0] + p + q;
        q.set(&x[0]);
        vec![out + p + q]
    } gives [39.];
}

/// Case 2: a write keeps the slot's dtype. Another dtype is an error that names both.
#[jit]
fn assign_integers(p: &Parameter, x: &Tensor) -> Tensor {
    p.set(&ops::cast(x, DType::F32));
    p.value()
}

/// Case 12.
#[jit]
fn product_between_writes(w: &Parameter, bias: &Parameter, x: &Tensor) -> Tensor {
    w.set(x);
    let y = ops::matmul(x, &w.value());
    w.set(&y);
    y + bias
}

/// Case 31: a check of shapes while tracing.
#[jit]
fn of_rank_one(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.rank() != 1 {
        return Err(ms::Error::new(ms::Code::Argument, "rank one is wanted"));
    }
    Ok(x + y)
}

#[test]
fn cases_on_vectors_and_matrices() {
    for jit in [false, true, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let p = Parameter::new(Tensor::ones([5]), "");
            let got = assign_integers(&p, &Tensor::from_slice([5], &[1i32; 5]));
            assert_eq!((got.dtype(), got.to_vec::<f32>()), (DType::F32, vec![1.0; 5]));
            let error = ms::catch(|| p.set(&Tensor::from_slice([5], &[1i32; 5]))).expect_err("another dtype");
            assert_eq!(error.code(), ms::Code::DType);

            let w = Parameter::new(Tensor::zeros([2, 2]), "");
            let x = Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
            let bias = Parameter::new(tensor![0.0, -1.0], "");
            let got = product_between_writes(&w, &bias, &x);
            assert_eq!(got.to_vec::<f32>(), [7.0, 9.0, 15.0, 21.0]);
            assert_eq!(w.value().to_vec::<f32>(), [7.0, 10.0, 15.0, 22.0]);

            let of = |x: &Tensor| of_rank_one(x, &Tensor::scalar(3.0)).map(|it| it.to_vec::<f32>());
            assert_eq!(of(&tensor![2.0]).ok(), Some(vec![5.0]));
            assert_eq!(of(&Tensor::ones([2, 2])).expect_err("of rank two").code(), ms::Code::Argument);
        });
    }
}

/// Case 29: gradients write a parameter, and read the new value.
#[cell]
struct Writes {
    p: Parameter,
}

#[cell]
impl Writes {
    fn construct(&self, x: &Tensor, y: &Tensor) -> Tensor {
        x + y + &self.p
    }

    fn bprop(&self, _x: &Tensor, y: &Tensor, _out: &Tensor, _dout: &Tensor) -> (Tensor, Tensor) {
        self.p.set(&(y * 2.0));
        (&self.p + 1.0, y + 1.0)
    }
}

#[jit]
fn gradients_that_write(net: &Writes, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    ms::grad(|x: &Tensor, y: &Tensor| net.call(x, y)).wrt_all()(x, y)
}

#[test]
fn case_29_bprop_that_assigns() {
    for jit in [false, true, true] {
        let net = Writes { p: Parameter::new(Tensor::scalar(1.0), "") };
        let (x, y) = (&Tensor::scalar(1.0), &Tensor::scalar(2.0));
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            for (y, want) in [(y, [5.0, 3.0, 4.0]), (x, [3.0, 2.0, 2.0])] {
                let (a, b) = gradients_that_write(&net, x, y);
                assert_eq!([a, b, net.p.value()].map(|it| it.item::<f32>()), want, "jit {jit}");
            }
        });
    }
}

/// Cases 32 and 34: every iteration of a loop on a host number assigns a parameter. MindSpore unrolls such a loop.
#[jit]
fn gradient_of_unrolled(w: &Parameter, x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| {
        let (mut i, mut out) = (0i32, x * 0.0);
        while i < 3 {
            w.set(&(x * 0.0 + f64::from(i)));
            out = x * w + out;
            i += 1;
        }
        out
    })(x)
}

/// Case 33.
#[jit]
fn unrolled(w: &Parameter, x: &Tensor) -> Tensor {
    let (mut i, mut out) = (0i32, x * 0.0);
    while i < 3 {
        w.set(&(x * 0.0 + f64::from(i)));
        out = w + out;
        i += 1;
    }
    out
}

#[test]
fn cases_32_to_34_copies_of_parameters() {
    type Run = fn(&Parameter, &Tensor) -> Tensor;
    let cases: [(&str, Run); 2] =
        [("gradient_of_unrolled", |w, x| gradient_of_unrolled(w, x)), ("unrolled", |w, x| unrolled(w, x))];
    for (case, run) in cases {
        for (level, copies) in [(Level::Every, 3), (Level::Several, 3), (Level::Needed, 0), (Level::None, 0)] {
            // Each level has another rank, so that it is compiled.
            let one = |it: f32| Tensor::full(vec![1; level as usize], it);
            let run = |jit: bool| {
                let w = Parameter::new(one(0.0), "");
                let context = ms::Context { jit, load_elim: level, ..ms::context() };
                (ms::with_context(context, || run(&w, &one(1.0)).item::<f32>()), w.value().item::<f32>())
            };
            assert_eq!((run(false), run(true)), ((3.0, 2.0), (3.0, 2.0)), "{case} at {level:?}");
            let reports = ms::compile_report();
            let report = reports.iter().rev().find(|it| it.name == case).expect("just compiled");
            let made = report.stage("effects").and_then(|it| it.graph).expect("a graph").moves;
            assert_eq!(made, copies, "{case} at {level:?}");
        }
    }
}
