//! Tests hooks of cells: which values they see and replace eagerly, and that compiled code refuses them.

use ms::prelude::*;
use ms::{Code, Context, Mode, catch};
use std::sync::{Arc, Mutex};

/// Computes `3 x`.
#[cell]
struct Thrice {
    weight: Parameter,
}

#[cell]
impl Thrice {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.weight
    }
}

fn thrice() -> Thrice {
    Thrice { weight: Parameter::new(Tensor::scalar(3.0), "weight") }
}

/// Collects the messages of hooks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, what: &str, x: &Tensor) {
        self.0.lock().expect("nobody panics").push(format!("{what} {}", x.item::<f32>()));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics"))
    }
}

#[cell]
struct Net {
    first: Thrice,
    second: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.second(&self.first(x))
    }
}

#[test]
fn hooks_see_and_replace_values_and_gradients() {
    let (layer, log) = (thrice(), Log::default());
    let told = || log.clone();
    let (a, b, c, d) = (told(), told(), told(), told());
    let handles = [
        layer.register_forward_pre_hook(move |inputs| {
            a.push("input", &inputs[0]);
            None
        }),
        layer.register_forward_hook(move |inputs, results| {
            b.push("result", &results[0]);
            assert_eq!(inputs[0].item::<f32>() * 3.0, results[0].item::<f32>());
            None
        }),
        layer.register_backward_hook(move |g| {
            c.push("gradient of the input", g);
            None
        }),
        layer.register_backward_pre_hook(move |g| {
            d.push("gradient of the result", g);
            None
        }),
    ];
    let square = |x: &Tensor| layer.call(x).square();
    assert_eq!(layer.call(&Tensor::scalar(2.0)).item::<f32>(), 6.0);
    assert_eq!(log.take(), ["input 2", "result 6"]);
    assert_eq!(ms::grad(square)(&Tensor::scalar(2.0)).item::<f32>(), 36.0);
    let seen = ["input 2", "result 6", "gradient of the result 12", "gradient of the input 36"];
    assert_eq!(log.take(), seen);
    // Only the parameters have gradients here; the input has none.
    let gradients = ms::grad(|layer: &Thrice| layer.call(&Tensor::scalar(2.0)))(&layer);
    assert_eq!(gradients.get(&layer.weight).expect("it is trained").item::<f32>(), 2.0);
    assert_eq!(log.take(), ["input 2", "result 6", "gradient of the result 1"]);
    handles.into_iter().for_each(ms::HookHandle::remove);
    assert_eq!(ms::grad(square)(&Tensor::scalar(2.0)).item::<f32>(), 36.0);
    assert_eq!(log.take(), [""; 0]);

    let _pre = layer.register_forward_pre_hook(|inputs| Some(vec![&inputs[0] + 1.0]));
    let _post = layer.register_forward_hook(|_, results| Some(vec![&results[0] * 10.0]));
    let of_result = layer.register_backward_pre_hook(|g| Some(g * 0.5));
    let _of_input = layer.register_backward_hook(|g| Some(g + 1.0));
    assert_eq!(layer.call(&Tensor::scalar(2.0)).item::<f32>(), 90.0);
    assert_eq!(ms::grad(|x: &Tensor| layer.call(x))(&Tensor::scalar(2.0)).item::<f32>(), 16.0);
    of_result.remove();
    assert_eq!(ms::grad(|x: &Tensor| layer.call(x))(&Tensor::scalar(2.0)).item::<f32>(), 31.0);
}

/// Has arguments and results of every kind: several tensors, options, tuples, host values, cells.
#[cell]
struct Mixer {
    scale: f64,
}

#[cell]
impl Mixer {
    fn construct(
        &self,
        (x, y): &(Tensor, Tensor),
        inner: &Thrice,
        times: usize,
        more: &Option<Tensor>,
    ) -> (Tensor, Vec<Tensor>) {
        let sum = x + y * self.scale;
        let more = more.as_ref().map_or_else(|| inner.call(&sum), |it| it * &sum);
        (sum.clone(), (0..times).map(|it| &more + it as f32).collect())
    }
}

/// A wrapper with the address and the name of the cell inside it.
#[cell]
struct Wrapper<L> {
    inner: L,
}

#[cell]
impl<L: Layer + Cell> Wrapper<L> {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.inner.forward(x) + 1.0
    }
}

#[test]
fn cells_of_every_form_have_hooks() {
    let numbers = |tensors: &[Tensor]| tensors.iter().map(|it| it.item::<f32>()).collect::<Vec<_>>();
    let (mixer, inner, seen) = (Mixer { scale: 2.0 }, thrice(), Arc::new(Mutex::new(Vec::new())));
    let (before, after) = (seen.clone(), seen.clone());
    let _before = mixer.register_forward_pre_hook(move |inputs| {
        before.lock().expect("nobody panics").push(numbers(inputs));
        Some(inputs.iter().map(|it| it + 1.0).collect())
    });
    let _after = mixer.register_forward_hook(move |inputs, results| {
        after.lock().expect("nobody panics").extend([numbers(inputs), numbers(results)]);
        Some(results.iter().map(|it| it * 10.0).collect())
    });
    let pair = (Tensor::scalar(1.0), Tensor::scalar(2.0));
    let (sum, rest) = mixer.call(&pair, &inner, 2, &Some(Tensor::scalar(4.0)));
    assert_eq!((sum.item::<f32>(), numbers(&rest)), (80.0, vec![400.0, 410.0]));
    let seen = std::mem::take(&mut *seen.lock().expect("nobody panics"));
    assert_eq!(seen, [vec![1., 2., 4.], vec![2., 3., 5.], vec![8., 40., 41.]]);
    let (sum, rest) = mixer.call(&pair, &inner, 1, &None);
    assert_eq!((sum.item::<f32>(), numbers(&rest)), (80.0, vec![240.0]));

    // Nested cells share one name and one address.
    let nested = Wrapper { inner: Wrapper { inner: thrice() } };
    let one = Tensor::scalar(1.0);
    let doubles = |it: &[Tensor]| Some(it.iter().map(|it| it * 2.0).collect::<Vec<_>>());
    assert_eq!(nested.call(&one).item::<f32>(), 5.0);
    let inside = nested.inner.register_forward_hook(move |_, results| doubles(results));
    assert_eq!(nested.call(&one).item::<f32>(), 9.0);
    let outside = nested.register_forward_hook(move |_, results| doubles(results));
    assert_eq!(nested.call(&one).item::<f32>(), 18.0);
    drop(inside);
    assert_eq!(nested.call(&one).item::<f32>(), 10.0);
    drop(outside);
    assert_eq!(nested.call(&one).item::<f32>(), 5.0);

    // Layers of the library, inside containers and behind `dyn`, have hooks too.
    let net = nn::sequential![nn::Dense::new(2, 3), nn::ReLU, nn::Dropout::new(0.5)];
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(nn::Dense::new(2, 3))];
    let count = Arc::new(Mutex::new(0));
    let counted = || {
        let count = count.clone();
        move |_: &[Tensor], _: &[Tensor]| {
            *count.lock().expect("nobody panics") += 1;
            None
        }
    };
    let _handles = (net.register_forward_hook(counted()), layers[0].register_forward_hook(counted()));
    let x = Tensor::ones([4, 2]);
    drop((net.call(&x), layers[0].forward(&x)));
    assert_eq!(*count.lock().expect("nobody panics"), 2);
}

/// Takes a tensor behind a reference inside the argument.
#[cell]
struct Behind {
    scale: f64,
}

#[cell]
impl Behind {
    fn construct(&self, x: Option<&Tensor>) -> Tensor {
        x.map_or_else(|| Tensor::scalar(0.0), |it| it * self.scale)
    }
}

#[test]
fn mistakes() {
    let seen = Behind { scale: 2.0 };
    let handle = seen.register_forward_pre_hook(|inputs| {
        assert_eq!(inputs.len(), 1);
        None
    });
    assert_eq!(seen.call(Some(&Tensor::scalar(1.0))).item::<f32>(), 2.0);
    handle.remove();
    type Case<'a> = (Code, &'a str, Box<dyn Fn() + 'a>);
    let (layer, list) = (thrice(), nn::CellList::from(vec![thrice()]));
    let wrong_count = || {
        let _handle = layer.register_forward_pre_hook(|_| Some(vec![]));
        drop(layer.call(&Tensor::scalar(1.0)));
    };
    let wrong_gradient = || {
        let _handle = layer.register_backward_hook(|g| Some(ops::stack(&[g, g], 0)));
        drop(ms::grad(|x: &Tensor| layer.call(x))(&Tensor::scalar(1.0)));
    };
    let behind = Behind { scale: 2.0 };
    let replaces_behind = || {
        let _handle = behind.register_forward_pre_hook(|inputs| Some(inputs.iter().map(|it| it + 1.0).collect()));
        drop(behind.call(Some(&Tensor::scalar(1.0))));
    };
    let cases: [Case<'_>; 5] = [
        (Code::Hook, "behind a reference inside of an argument", Box::new(replaces_behind)),
        (Code::Hook, "`ReLU` has no fields", Box::new(|| drop(nn::ReLU.register_forward_hook(|_, _| None)))),
        (Code::Hook, "what is not called has no hooks", Box::new(|| drop(list.register_forward_hook(|_, _| None)))),
        (Code::Argument, "a hook gives 0 tensors in the place of 1", Box::new(wrong_count)),
        (Code::Shape, "a hook gives f32[2] for a gradient of f32[]", Box::new(wrong_gradient)),
    ];
    for (code, words, case) in &cases {
        let error = catch(case).expect_err(words);
        assert_eq!(error.code(), *code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// Compiles wherever it is called.
#[cell]
struct Compiled {
    weight: Parameter,
}

#[cell]
impl Compiled {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.weight
    }
}

#[test]
fn compiled_functions_refuse_hooks() {
    let net = Net { first: thrice(), second: nn::Dense::new(1, 1) };
    let x = tensor![[1.0], [2.0]];
    let compiled = ms::jit(|net: &Net, x: &Tensor| net.call(x));
    let other = ms::jit(|x: &Tensor| x * 2.0);
    let want = compiled(&net, &x).to_vec::<f32>();
    let in_graph_mode = || ms::with_context(Context { mode: Mode::Graph, ..ms::context() }, || net.call(&x));
    assert_eq!(in_graph_mode().to_vec::<f32>(), want);
    let hook = net.first.register_forward_hook(|_, _| None);
    // Versions that were compiled before the hook was registered are not used.
    for run in [&|| compiled(&net, &x), &in_graph_mode] as [&dyn Fn() -> Tensor; 2] {
        let error = catch(run).expect_err("it has a hook");
        assert_eq!(error.code(), Code::Hook, "{error}");
        assert!(error.to_string().contains("Thrice"), "{error}");
    }
    assert_eq!(other(&x).to_vec::<f32>(), [2.0, 4.0], "without a hook inside");
    let eagerly = || ms::with_context(Context { jit: false, ..ms::context() }, || compiled(&net, &x));
    assert_eq!(eagerly().to_vec::<f32>(), want);
    // Hooks of another cell do not hide the first cell's hook.
    let more = net.second.register_forward_hook(|_, _| None);
    hook.remove();
    assert_eq!(catch(|| compiled(&net, &x)).expect_err("it has a hook").code(), Code::Hook);
    more.remove();
    assert_eq!(compiled(&net, &x).to_vec::<f32>(), want);

    let always = Compiled { weight: Parameter::new(Tensor::scalar(3.0), "weight") };
    let product = always.call(&x).to_vec::<f32>();
    let handle = always.register_forward_hook(|_, _| None);
    assert_eq!(catch(|| always.call(&x)).expect_err("it has a hook").code(), Code::Hook);
    drop(handle);
    assert_eq!(always.call(&x).to_vec::<f32>(), product);
}

#[test]
fn hooks_of_gradients() {
    let x = tensor![[1.0, 2.0]];
    let hook = ops::GradientHook::new(|_| None);
    let captured = |x: &Tensor| ops::hook_backward(x, &hook);
    let error = catch(|| ms::vmap(captured)(&tensor![1.0, 2.0]));
    assert!(error.map_or_else(|it| it.code() == Code::Hook, |it| it.to_vec::<f32>() == [1.0, 2.0]));
    let wrong = ops::GradientHook::new(|g| Some(g.sum(())));
    let error = catch(|| ms::grad(|x: &Tensor| ops::hook_backward(x, &wrong))(&x)).expect_err("another shape");
    assert_eq!(error.code(), Code::Shape, "{error}");
}

/// A hook belongs to the cell that it was registered for, even if another cell reuses the memory.
#[test]
fn a_forgotten_handle_ends_with_its_cell() {
    let log = Log::default();
    let mut place = Box::new(thrice());
    let told = log.clone();
    std::mem::forget(place.register_forward_pre_hook(move |inputs| {
        told.push("input", &inputs[0]);
        None
    }));
    place.call(&Tensor::scalar(2.0));
    assert_eq!(log.take(), ["input 2"]);
    *place = thrice();
    place.call(&Tensor::scalar(4.0));
    assert_eq!(log.take(), [""; 0]);
    // The forgotten hook does not prevent compiling the other cell either.
    assert_eq!(ms::jit(|net: &Thrice, x: &Tensor| net.call(x))(&place, &Tensor::scalar(2.0)).item::<f32>(), 6.0);
    let told = log.clone();
    let handle = place.register_forward_pre_hook(move |inputs| {
        told.push("another", &inputs[0]);
        None
    });
    place.call(&Tensor::scalar(1.0));
    assert_eq!(log.take(), ["another 1"]);
    handle.remove();
}
