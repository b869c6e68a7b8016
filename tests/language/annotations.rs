//! Tests the macros with the runtime: cells, compiled functions and methods, their arguments and results.

use ms::Apply;
use ms::prelude::*;
use std::sync::Arc;

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len()], values)
}

fn add(x: &Tensor, y: &Tensor) -> Tensor {
    ops::add(x, y)
}

/// Checks the result in every mode, twice, so that the second call runs the compiled version of the first.
#[track_caller]
fn check(want: &[f32], run: impl Fn() -> Tensor) {
    for (mode, jit) in [(Mode::PyNative, true), (Mode::Graph, true), (Mode::Graph, false)] {
        let context = ms::Context { mode, jit, ..ms::context() };
        for _ in 0..2 {
            let got = ms::with_context(context.clone(), &run);
            assert_eq!(got.to_vec::<f32>(), want, "{mode:?}, jit {jit}");
        }
    }
}

#[cell]
struct Shift {
    by: Parameter,
}

#[cell]
impl Shift {
    fn new(by: f32) -> Self {
        Self { by: Parameter::new(Tensor::scalar(by), "") }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::add(x, &self.by)
    }
}

#[cell]
struct Pair<L> {
    first: Shift,
    second: L,
    times: usize,
    #[cell(skip)]
    label: std::cell::Cell<u8>,
}

#[cell]
impl<L: Cell + for<'a> Apply<'a, Argument = &'a Tensor, Output = Tensor>> Pair<L> {
    fn construct(&self, x: &Tensor) -> Tensor {
        let mut x = self.first(&x.clone());
        for _ in 0..self.times {
            x = self.second(&x);
        }
        x
    }

    /// A getter with the name of a field.
    fn first(&self, x: &Tensor) -> Tensor {
        self.label.set(self.label.get() + 1);
        self.first.call(x)
    }
}

#[test]
fn cells_call_their_fields_and_name_their_parameters() {
    let net = Pair { first: Shift::new(2.0), second: Shift::new(3.0), times: 2, label: 0.into() };
    check(&[9.0, 10.0], || net.call(&vector(&[1.0, 2.0])));
    let names: Vec<String> = net.named_parameters().expect("names differ").into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["first.by", "second.by"]);
    assert!(net.label.get() > 0, "the user's own method stands before the field's");
}

#[test]
fn a_changed_field_is_seen() {
    let mut net = Pair { first: Shift::new(2.0), second: Shift::new(3.0), times: 1, label: 0.into() };
    check(&[6.0], || net.call(&vector(&[1.0])));
    net.times = 3;
    check(&[12.0], || net.call(&vector(&[1.0])));
    net.first.by.set(&Tensor::scalar(1.0f32));
    check(&[11.0], || net.call(&vector(&[1.0])));
}

#[test]
fn layers_of_one_structure_and_different_code_differ() {
    #[cell]
    struct Twice;
    #[cell]
    impl Twice {
        fn construct(&self, x: &Tensor) -> Tensor {
            add(x, x)
        }
    }
    #[cell]
    struct Same;
    #[cell]
    impl Same {
        fn construct(&self, x: &Tensor) -> Tensor {
            x.clone()
        }
    }
    let pair = |second: Box<dyn Layer>| Pair { first: Shift::new(1.0), second, times: 1, label: 0.into() };
    check(&[4.0], || pair(Box::new(Twice)).call(&vector(&[1.0])));
    check(&[2.0], || pair(Box::new(Same)).call(&vector(&[1.0])));
}

#[test]
fn one_cell_in_two_places() {
    #[cell]
    struct Shared {
        a: Arc<Shift>,
        b: Arc<Shift>,
    }
    #[cell]
    impl Shared {
        fn construct(&self, x: &Tensor) -> Tensor {
            self.b(&self.a(x))
        }
    }
    let shift = Arc::new(Shift::new(2.0));
    let net = Shared { a: shift.clone(), b: shift };
    check(&[5.0], || net.call(&vector(&[1.0])));
    assert_eq!(net.parameters().len(), 1);
}

#[cell]
struct Sum;

#[cell]
impl Sum {
    #[jit]
    fn construct(&self, x: &Tensor, y: &Tensor) -> Tensor {
        add(x, y)
    }
}

#[test]
fn several_arguments() {
    check(&[5.0, 7.0], || Sum.call(&vector(&[1.0, 2.0]), &vector(&[4.0, 5.0])));
}

#[derive(Clone, Copy, PartialEq, Static)]
enum Plan {
    Keep,
    Repeat { times: usize },
}

#[derive(Clone, Tree)]
struct State<T> {
    value: T,
    plan: Plan,
}

#[jit]
fn generic<T: Tree + Send + Sync + 'static>(x: &T, (times, _): (usize, bool)) -> Vec<T> {
    vec![x.clone(); times]
}

#[test]
fn generics_and_patterns() {
    check(&[2.0], || generic(&vec![vector(&[1.0]), vector(&[2.0])], (3, true))[2][1].clone());
    assert_eq!(generic(&7i64, (2, false)), [7, 7]);
    assert_eq!(generic(&7i64, (1, false)), [7]);
}

impl State<Tensor> {
    #[jit]
    fn run(&self) -> Tensor {
        match self.plan {
            Plan::Keep => self.value.clone(),
            Plan::Repeat { times } => (0..times).fold(self.value.clone(), |sum, _| add(&sum, &self.value)),
        }
    }

    #[jit]
    fn step(&mut self, x: &Tensor) -> Tensor {
        if self.plan == Plan::Keep {
            return x.clone();
        }
        let old = self.value.clone();
        self.value = add(&old, x);
        self.plan = Plan::Keep;
        old
    }
}

#[test]
fn methods_of_trees() {
    let state = |plan| State { value: vector(&[1.0, 2.0]), plan };
    check(&[1.0, 2.0], || state(Plan::Keep).run());
    check(&[4.0, 8.0], || state(Plan::Repeat { times: 3 }).run());
    check(&[1.0, 2.0, 11.0, 12.0, 5.0], || {
        let mut it = state(Plan::Repeat { times: 1 });
        let old = it.step(&vector(&[10.0, 10.0]));
        let same = it.step(&vector(&[5.0]));
        assert!(it.plan == Plan::Keep);
        vector(&[old.to_vec::<f32>(), it.value.to_vec(), same.to_vec()].concat())
    });
}

#[derive(Debug, PartialEq)]
enum Problem {
    Host(std::num::ParseIntError),
    Library(String),
}

impl From<ms::Error> for Problem {
    fn from(error: ms::Error) -> Self {
        Self::Library(error.to_string())
    }
}

impl From<std::num::ParseIntError> for Problem {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Host(error)
    }
}

#[jit]
fn repeated(total: &mut Tensor, x: &Tensor, times: &str) -> Result<usize, Problem> {
    let times: usize = times.parse()?;
    for _ in 0..times {
        *total = add(total, x);
    }
    Ok(times)
}

#[test]
fn results_and_mutable_arguments() {
    for _ in 0..2 {
        let mut total = vector(&[0.0]);
        assert_eq!(repeated(&mut total, &vector(&[2.0]), "3"), Ok(3));
        assert_eq!(total.to_vec::<f32>(), [6.0]);
        assert!(matches!(repeated(&mut total, &vector(&[2.0]), "x"), Err(Problem::Host(_))));
        assert_eq!(total.to_vec::<f32>(), [6.0]);
        let refused = repeated(&mut total, &vector(&[2.0, 3.0, 4.0]), "2");
        assert!(refused.is_ok(), "broadcast: {refused:?}");
        let refused = repeated(&mut total, &vector(&[2.0, 3.0]), "1");
        assert!(matches!(&refused, Err(Problem::Library(text)) if text.contains("add")), "{refused:?}");
    }
}

#[jit]
fn shifted(x: &Tensor, #[dynamic] by: f32) -> Tensor {
    assert_eq!((by.dtype(), by.shape().len()), (DType::F32, 0));
    add(x, &by)
}

#[test]
fn dynamic_scalars_are_inputs() {
    check(&[1.5], || shifted(&vector(&[1.0]), 0.5));
    check(&[3.0], || shifted(&vector(&[1.0]), 2.0));
}

trait Model {
    fn predict(&self, x: &Tensor) -> Tensor;
}

impl Model for Shift {
    #[jit]
    fn predict(&self, x: &Tensor) -> Tensor {
        let debug = format!("{:?} {}", self.by, stringify!(self));
        assert!(debug.contains("Parameter"));
        self.call(&self.call(x))
    }
}

#[test]
fn methods_of_traits() {
    check(&[5.0], || Shift::new(2.0).predict(&vector(&[1.0])));
}

#[jit]
fn run(x: &Tensor) -> Tensor {
    let model = Shift::new(3.0);
    let old = model.call(x);
    model.by.set(&add(&model.by.value(), &Tensor::scalar(1.0f32)));
    old
}

#[test]
fn a_model_made_inside_belongs_to_the_function() {
    let got: Vec<f32> = (0..3).map(|_| run(&vector(&[0.0])).to_vec::<f32>()[0]).collect();
    assert_eq!(got, [3.0, 4.0, 5.0]);
}

#[jit]
fn through(conv: &Pair<Shift>, x: &Tensor) -> Tensor {
    conv.call(x)
}

#[test]
fn cells_are_arguments() {
    let net = Pair { first: Shift::new(2.0), second: Shift::new(3.0), times: 2, label: 0.into() };
    check(&[9.0], || through(&net, &vector(&[1.0])));
    check(&[10.0], || ms::jit(|net: &Pair<Shift>, x: &Tensor| add(&net.call(x), x))(&net, &vector(&[1.0])));
}

#[test]
fn gradients_of_trees_and_cells() {
    let state = State { value: vector(&[1.0, 2.0]), plan: Plan::Repeat { times: 3 } };
    for _ in 0..2 {
        let gradient = ms::grad(|it: &State<Tensor>| it.run())(&state);
        assert_eq!(gradient.value.to_vec::<f32>(), [4.0, 4.0]);
        let net = Pair { first: Shift::new(2.0), second: Shift::new(3.0), times: 2, label: 0.into() };
        let gradients = ms::grad(|net: &Pair<Shift>, x: &Tensor| through(net, x))(&net, &vector(&[1.0]));
        let gradients: Vec<f32> = gradients.iter().map(|it| it.1.item()).collect();
        assert_eq!(gradients, [1.0, 2.0]);
    }
}

#[lazy_inline]
#[cell]
struct Block {
    inner: Shift,
}

#[cell]
impl Block {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.inner(x)
    }
}

#[cell]
struct Other;

#[cell]
impl Other {
    #[lazy_inline]
    fn new() -> Self {
        Self
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

#[test]
fn lazy_inline_marks_types() {
    use ms::Marked as _;
    const { assert!(Block::LAZY_INLINE && Other::LAZY_INLINE && !Shift::LAZY_INLINE) }
    check(&[3.0], || Block { inner: Shift::new(2.0) }.call(&Other::new().call(&vector(&[1.0]))));
}

#[jit_class]
struct Inner {
    number: i64,
    offset: Tensor,
}

#[jit_class]
impl Inner {
    fn with(number: i64) -> Self {
        Self { number, offset: Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]) }
    }

    fn new(val: i64) -> Self {
        Self::with(val + 3)
    }

    fn act(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }

    fn call(&self, x: &Tensor, y: &Tensor) -> Tensor {
        self.number * (x + y)
    }
}

#[jit_class]
struct Outer {
    inner: Inner,
}

#[cell]
struct Holder {
    outer: Outer,
}

#[cell]
impl Holder {
    #[jit]
    fn construct(&self) -> Tensor {
        self.outer.inner.offset.clone()
    }
}

#[jit]
fn by_name(n: &Inner, x: &Tensor, y: &Tensor) -> Tensor {
    n.number + Inner::act(n, x, y)
}

#[jit]
fn made_inside() -> i64 {
    Inner::new(2).number
}

#[jit]
fn called(x: &Tensor, y: &Tensor) -> Tensor {
    let net = Inner::with(2);
    net(x, y)
}

#[jit]
fn called_by_reference(net: &Inner, sum: Sum, x: &Tensor) -> Tensor {
    let twice = |x: &Tensor| x + x;
    net(&sum(x, x), &twice(x))
}

impl Clone for Sum {
    fn clone(&self) -> Self {
        Self
    }
}

#[test]
fn classes_are_fields_arguments_made_inside_and_called() {
    let scalar = |x: f32| Tensor::scalar(x);
    check(&[1.0, 2.0, 3.0], || Holder { outer: Outer { inner: Inner::with(1) } }.call());
    check(&[12.0], || by_name(&Inner::with(2), &scalar(2.0), &scalar(3.0)));
    check(&[10.0], || called(&scalar(2.0), &scalar(3.0)));
    check(&[12.0], || called_by_reference(&Inner::with(3), Sum, &scalar(1.0)));
    check(&[16.0], || called_by_reference(&Inner::with(4), Sum, &scalar(1.0)));
    assert_eq!((made_inside(), made_inside()), (5, 5));
}
