//! `try_call` of a cell whose `construct` is `#[jit]`: errors of the library are values.
use ms::prelude::*;
use ms::{Apply, Arg};

#[cell]
struct Head {
    fc: nn::Dense,
    scale: f32,
}

#[cell]
impl Head {
    #[jit(dims(x = [batch, 4]))]
    fn construct(&self, x: &Tensor, mut times: usize) -> Tensor {
        times += 1;
        if times > 7 {
            return x.reshape([3]);
        }
        self.fc(x) * self.scale * times
    }
}

/// A cell with type parameters, and an argument of the type `impl Trait`.
#[cell]
struct Twice<L> {
    layer: L,
}

#[cell]
impl<L: Cell + for<'a> Apply<'a, Argument = &'a Tensor, Output = Tensor>> Twice<L> {
    #[jit]
    fn construct(&self, x: &Tensor, bias: &impl Arg) -> (Tensor, Tensor) {
        let _ = bias;
        let y = self.layer(x);
        (self.layer(&y), y)
    }
}

/// A cell whose `construct` returns a `Result` has `call` only.
#[cell]
struct Checked {
    fc: nn::Dense,
}

#[cell]
impl Checked {
    #[jit]
    fn construct(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.fc(x))
    }
}

/// A method of the name `try_call` stays.
#[cell]
struct Named {
    fc: nn::Dense,
}

#[cell]
impl Named {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(x)
    }

    fn try_call(&self) -> usize {
        self.fc.weight.value().numel()
    }
}

#[test]
fn main() {
    let head = Head { fc: nn::Dense::new(4, 2), scale: 0.5 };
    let twice = Twice { layer: nn::Dense::new(4, 4) };
    let checked = Checked { fc: nn::Dense::new(4, 2) };
    let (fits, other) = (Tensor::ones([3, 4]), Tensor::ones([3, 5]));
    for jit in [true, false] {
        ms::with_context(Context { jit, ..ms::context() }, || {
            for _ in 0..2 {
                let y = head.try_call(&fits, 1).expect("sizes fit");
                assert_eq!(y.to_vec::<f32>(), head.call(&fits, 1).to_vec::<f32>());
                let code = |it: Result<Tensor>| it.expect_err("refused").code();
                assert_eq!(code(head.try_call(&other, 1)), ms::Code::Sizes);
                assert_eq!(code(head.try_call(&fits, 7)), ms::Code::Shape);
                assert_eq!(code(ms::catch(|| head.call(&other, 1))), ms::Code::Sizes);
                assert_eq!(twice.try_call(&fits, &2.0f32).expect("sizes fit").0.shape(), [3, 4]);
                assert!(twice.try_call(&other, &2.0f32).is_err());
                assert_eq!(code(checked.call(&other)), ms::Code::Shape);
            }
        });
    }
    assert_eq!(Named { fc: nn::Dense::new(4, 2) }.try_call(), 8);
}
