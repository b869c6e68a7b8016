//! Layers with hooks: what they see and replace, eagerly; compiled code refuses them.

use ms::prelude::*;
use ms::{Code, Context, Mode, catch};
use std::sync::{Arc, Mutex};

/// `3 x`.
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

fn thrice() -> nn::Hooked<Thrice> {
    nn::Hooked::new(Thrice { weight: Parameter::new(Tensor::scalar(3.0), "weight") })
}

/// The messages of hooks.
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
    first: nn::Hooked<Thrice>,
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
        layer.register_forward_pre_hook(move |_, x| {
            a.push("input", x);
            None
        }),
        layer.register_forward_hook(move |layer, x, y| {
            b.push("result", y);
            assert_eq!(layer.weight.value().item::<f32>() * x.item::<f32>(), y.item::<f32>());
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
    // Of the parameters: the input has no gradient.
    let gradients = ms::grad(|layer: &nn::Hooked<Thrice>| layer.call(&Tensor::scalar(2.0)))(&layer);
    assert_eq!(gradients.get(&layer.layer.weight).expect("it is trained").item::<f32>(), 2.0);
    assert_eq!(log.take(), ["input 2", "result 6", "gradient of the result 1"]);
    handles.into_iter().for_each(nn::HookHandle::remove);
    assert_eq!(ms::grad(square)(&Tensor::scalar(2.0)).item::<f32>(), 36.0);
    assert_eq!(log.take(), [""; 0]);

    let _pre = layer.register_forward_pre_hook(|_, x| Some(x + 1.0));
    let _post = layer.register_forward_hook(|_, _, y| Some(y * 10.0));
    let of_result = layer.register_backward_pre_hook(|g| Some(g * 0.5));
    let _of_input = layer.register_backward_hook(|g| Some(g + 1.0));
    assert_eq!(layer.call(&Tensor::scalar(2.0)).item::<f32>(), 90.0);
    assert_eq!(ms::grad(|x: &Tensor| layer.call(x))(&Tensor::scalar(2.0)).item::<f32>(), 16.0);
    of_result.remove();
    assert_eq!(ms::grad(|x: &Tensor| layer.call(x))(&Tensor::scalar(2.0)).item::<f32>(), 31.0);
}

#[test]
fn compiled_functions_refuse_hooks() {
    let net = Net { first: thrice(), second: nn::Dense::new(2, 1) };
    let x = tensor![[1.0, 2.0]];
    let compiled = ms::jit(|net: &Net, x: &Tensor| net.call(x));
    let want = compiled(&net, &x).to_vec::<f32>();
    let handle = net.first.register_forward_hook(|_, _, _| None);
    // What was compiled before the hook was registered is not used.
    let in_graph_mode = || ms::with_context(Context { mode: Mode::Graph, ..ms::context() }, || net.call(&x));
    for run in [&|| compiled(&net, &x), &in_graph_mode] as [&dyn Fn() -> Tensor; 2] {
        let error = catch(run).expect_err("it has a hook");
        assert_eq!(error.code(), Code::Hook, "{error}");
    }
    let eagerly = || ms::with_context(Context { jit: false, ..ms::context() }, || compiled(&net, &x));
    assert_eq!(eagerly().to_vec::<f32>(), want);
    handle.remove();
    assert_eq!(compiled(&net, &x).to_vec::<f32>(), want);
    let hook = ops::GradientHook::new(|_| None);
    let captured = |x: &Tensor| ops::hook_backward(x, &hook);
    let error = catch(|| ms::vmap(captured)(&tensor![1.0, 2.0]));
    assert!(error.map_or_else(|it| it.code() == Code::Hook, |it| it.to_vec::<f32>() == [1.0, 2.0]));
    let wrong = ops::GradientHook::new(|g| Some(g.sum(())));
    let error = catch(|| ms::grad(|x: &Tensor| ops::hook_backward(x, &wrong))(&x)).expect_err("another shape");
    assert_eq!(error.code(), Code::Shape, "{error}");
}
