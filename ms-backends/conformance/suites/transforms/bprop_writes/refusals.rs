//! Tests refusals of writes without an order, and of reads of values that others write.

use super::MODES;
use super::cells::Net;
use ms::prelude::*;
use ms::{Code, Context};

/// A parameter with a final value that no order of backward passes determines is an error.
#[test]
fn writes_without_an_order_are_errors() {
    #[jit]
    fn over_lanes(net: &Net, xs: &Tensor) -> Tensor {
        ms::vmap(|x: &Tensor| net.adds.call(x))(xs)
    }
    #[jit]
    fn of_lanes(net: &Net, xs: &Tensor) -> Tensor {
        ms::grad(|xs: &Tensor| ms::vmap(|x: &Tensor| net.adds.call(x))(xs).sum(()))(xs)
    }
    #[jit]
    fn alike_in_lanes(net: &Net, xs: &Tensor) -> Tensor {
        ms::vmap(|x: &Tensor| ms::grad(|x: &Tensor| net.adds.call(x))(x))(xs)
    }
    #[jit]
    fn in_lanes(net: &Net, xs: &Tensor) -> Tensor {
        ms::vmap(|x: &Tensor| ms::grad(|x: &Tensor| net.adds.call(x) * x)(x))(xs)
    }
    #[jit]
    fn pushed(net: &Net, xs: &Tensor) -> Tensor {
        ms::jvp(|x: &Tensor| net.adds.call(&x.sum(())))(xs, xs).1
    }
    #[jit]
    fn jacobian(net: &Net, xs: &Tensor) -> Tensor {
        ms::jacrev(|x: &Tensor| x * net.adds.call(&x.sum(())))(xs)
    }
    #[jit]
    fn hessian(net: &Net, xs: &Tensor) -> Tensor {
        ms::hessian(|x: &Tensor| net.adds.call(&(x * x).sum(())))(xs)
    }
    #[jit]
    fn read_by_another(net: &Net, xs: &Tensor) -> Tensor {
        ms::grad(|xs: &Tensor| net.adds.call(&net.reads.call(&xs.sum(()))))(xs)
    }
    #[jit]
    fn read_by_a_shared_graph(net: &Net, xs: &Tensor) -> Tensor {
        let [of_other, of_same] = &net.shared_reads;
        ms::grad(|xs: &Tensor| net.adds.call(&of_same.call(&of_other.call(&xs.sum(())))))(xs)
    }
    #[jit]
    fn read_by_another_forward(net: &Net, xs: &Tensor) -> Tensor {
        net.adds.call(&net.reads.call(&xs.sum(())))
    }
    type Run = fn(&Net, &Tensor) -> Tensor;
    let cases: [(&str, Run, [Option<Code>; 2]); 10] = [
        ("read_by_a_shared_graph", |net, x| read_by_a_shared_graph(net, x), [Some(Code::BackwardWrites); 2]),
        ("hessian", |net, x| hessian(net, x), [None, Some(Code::BackwardWrites)]),
        ("read_by_another", |net, x| read_by_another(net, x), [Some(Code::BackwardWrites); 2]),
        ("read_by_another_forward", |net, x| read_by_another_forward(net, x), [None; 2]),
        ("over_lanes", |net, x| over_lanes(net, x), [None, None]),
        ("of_lanes", |net, x| of_lanes(net, x), [Some(Code::BackwardWrites); 2]),
        ("alike_in_lanes", |net, x| alike_in_lanes(net, x), [None, None]),
        ("in_lanes", |net, x| in_lanes(net, x), [Some(Code::Mapped); 2]),
        ("pushed", |net, x| pushed(net, x), [Some(Code::BackwardWrites); 2]),
        ("jacobian", |net, x| jacobian(net, x), [None, Some(Code::BackwardWrites)]),
    ];
    for (name, run, want) in cases {
        for ((how, jit), want) in MODES.into_iter().zip([want[0], want[1], want[1]]) {
            let net = Net::new();
            let call = || run(&net, &tensor![1.0, 2.0]).to_vec::<f32>();
            let got = ms::with_context(Context { jit, ..ms::context() }, || ms::catch(call));
            assert_eq!(got.as_ref().err().map(ms::Error::code), want, "{name}, {how}: {got:?}");
            let left = match (name, want) {
                ("alike_in_lanes" | "hessian", None) => 3.0,
                ("jacobian", None) => 8.0,
                _ => 1.0,
            };
            assert_eq!(net.p.value().item::<f32>(), left, "{name}, {how}");
        }
    }
}
