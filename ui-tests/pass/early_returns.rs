// `return` at any depth, under conditions on tensors and on host values, with a `Result` and without.
use ms::prelude::*;

#[jit]
fn deep(x: &Tensor, rounds: usize) -> Result<Tensor> {
    let mut x = x.clone();
    for i in 0..rounds {
        while x < 100.0 {
            x = x * 3.0;
            if x > 50.0 {
                match i {
                    0 => {
                        if x == 81.0 {
                            return Ok(x + 0.5);
                        }
                    }
                    _ => return Ok(-x),
                }
            }
        }
        x = x - 99.0;
    }
    Ok(x)
}

#[jit]
fn nothing(slot: &Parameter, x: &Tensor) {
    if x < 0.0 {
        return;
    }
    slot.set(&(&*slot + x));
    if slot > 5.0 {
        return;
    }
    slot.set(&(&*slot * 10.0));
}

fn native(mut x: f32, rounds: usize) -> f32 {
    for i in 0..rounds {
        while x < 100.0 {
            x *= 3.0;
            if x > 50.0 {
                match i {
                    0 => {
                        if x == 81.0 {
                            return x + 0.5;
                        }
                    }
                    _ => return -x,
                }
            }
        }
        x -= 99.0;
    }
    x
}

#[test]
fn main() {
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            for x in [3.0f32, 1.0, 2.0, 7.0, 120.0] {
                for rounds in 0..3 {
                    let got = deep(&Tensor::scalar(x), rounds).expect("no refusal").item::<f32>();
                    assert_eq!(got, native(x, rounds), "{x} {rounds}");
                }
            }
            let slot = Parameter::new(Tensor::scalar(1.0f32), "");
            for (x, want) in [(-1.0f32, 1.0f32), (2.0, 30.0), (1.0, 31.0)] {
                nothing(&slot, &Tensor::scalar(x));
                assert_eq!(slot.value().item::<f32>(), want);
            }
        });
    }
}
