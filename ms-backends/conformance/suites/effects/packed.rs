//! Tests cached packed operands: products pack a parameter once, until it is written.

use ms::prelude::*;
use ms::{Context, Precision};

/// The sizes M, K and N of the products. K exceeds one K block, and the last micro-panel is not full.
const SIZES: [usize; 3] = [5, 1100, 70];

/// The number of calls, more than a product makes before it caches a packed operand.
const CALLS: usize = 6;

fn numbers(shape: [usize; 2], seed: u64) -> Tensor {
    random::set_seed(seed);
    random::uniform(shape, -1.0, 1.0)
}

fn weight(seed: u64) -> Tensor {
    numbers([SIZES[2], SIZES[1]], seed)
}

fn slot(seed: u64) -> Parameter {
    Parameter::new(weight(seed), "w")
}

fn forms(w: &Parameter) -> usize {
    w.value().as_array().expect("it is not traced").storage().forms()
}

/// Whether this device caches packed operands.
fn keeps() -> bool {
    slot(0).value().as_array().expect("it is not traced").space().is_host()
}

fn in_strict<R>(jit: bool, body: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit, precision: Precision::Strict, ..ms::context() }, body)
}

#[jit]
fn product(w: &Parameter, x: &Tensor) -> Tensor {
    ops::dense(x, w, None)
}

#[jit]
fn rectified(w: &Parameter, x: &Tensor) -> Tensor {
    ops::dense(x, w, None).relu()
}

#[jit]
fn shrink(w: &Parameter) {
    w.set(&(w * 0.5 - 0.125));
}

/// Multiplies by an argument, which has no cached packed operand.
#[jit]
fn of_argument(w: &Tensor, x: &Tensor) -> Tensor {
    ops::dense(x, w, None)
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().into_iter().map(f32::to_bits).collect()
}

/// Writes a slot in some way, and returns its new value.
type Write = fn(&Parameter) -> Tensor;

const WRITES: [(&str, Write); 6] = [
    ("set", |w| {
        w.set(&weight(7));
        weight(7)
    }),
    ("set to its own value", |w| {
        w.set(&w.value());
        weight(1)
    }),
    ("in place, by a compiled function", |w| {
        shrink(w);
        weight(1) * 0.5 - 0.125
    }),
    ("eagerly", |w| {
        w.set(&(w * 2.0));
        weight(1) * 2.0
    }),
    ("by an optimizer", |w| {
        let net = Net { w: w.clone() };
        SGD::new(0.5).step(&net, &Tensor::ones([1]), |net, _| ops::sum(&net.w, ()));
        weight(1) - 0.5
    }),
    ("in the memory that it had", |w| {
        let mut array = w.value().as_array().expect("it is not traced").clone();
        w.set(&weight(2));
        if array.space().is_host() {
            array.as_mut_slice::<f32>().iter_mut().for_each(|it| *it = -*it);
        }
        let changed = Tensor::from_array(array);
        w.set(&changed);
        changed
    }),
];

#[cell]
struct Net {
    w: Parameter,
}

/// A packed operand is cached once and dropped by each kind of write. Its products have the same bits as others.
#[test]
fn until_they_are_written() {
    let x = numbers([SIZES[0], SIZES[1]], 3);
    for jit in [true, false] {
        for (name, write) in WRITES {
            in_strict(jit, || {
                let w = slot(1);
                let check = |value: &Tensor| {
                    for call in 0..CALLS {
                        let got = bits(&product(&w, &x));
                        assert!(got == bits(&of_argument(value, &x)), "{name}, call {call}, compiled: {jit}");
                    }
                    assert_eq!(forms(&w), usize::from(keeps()), "{name}, compiled: {jit}");
                };
                check(&weight(1));
                let value = write(&w);
                assert_eq!(forms(&w), 0, "{name}, compiled: {jit}");
                check(&value);
            });
        }
    }
}

#[jit]
fn convolved(w: &Parameter, x: &Tensor) -> Tensor {
    ops::conv(x, w, None, &ops::ConvOptions::new(2))
}

/// A compiled convolution has the bits of an eager one, and caches as many packed weights. Weights are cached only
/// where the processor has a matrix engine for them.
#[test]
fn convolutions() {
    let filters = |seed| ops::reshape(&numbers([70, 64 * 9], seed), [70, 64, 3, 3]);
    let x = ops::reshape(&numbers([64, 2 * 10 * 9], 3), [2, 64, 10, 9]);
    let of = |jit: bool| {
        let context = Context { jit, precision: Precision::Medium, ..ms::context() };
        ms::with_context(context, || {
            let w = Parameter::new(filters(1), "w");
            let mut all = Vec::new();
            for seed in [2, 3] {
                (0..CALLS).for_each(|_| all.push(bits(&convolved(&w, &x))));
                all.push(vec![forms(&w) as u32]);
                w.set(&filters(seed));
            }
            all
        })
    };
    assert!(of(true) == of(false));
}

/// Functions share the packed form of a parameter, and so do slots with the same memory. Arguments have none.
#[test]
fn one_form_for_all() {
    in_strict(true, || {
        let (w, x) = (slot(1), numbers([SIZES[0], SIZES[1]], 3));
        let tied = Parameter::new(w.value(), "tied");
        for _ in 0..CALLS {
            assert_eq!(bits(&product(&w, &x).relu()), bits(&rectified(&tied, &x)));
        }
        assert_eq!(forms(&w), usize::from(keeps()));
        let argument = weight(1);
        (0..CALLS).for_each(|_| drop(of_argument(&argument, &x)));
        assert_eq!(argument.as_array().expect("it is not traced").storage().forms(), 0);
        // A value that outlives its slots has none either.
        let value = w.value();
        drop((w, tied));
        assert_eq!(value.as_array().expect("it is not traced").storage().forms(), 0);
    });
}

/// A step that writes the parameters caches no packed form of them.
#[test]
fn training_keeps_none() {
    let (net, x) = (nn::Dense::new(SIZES[1], SIZES[2]), numbers([SIZES[0], SIZES[1]], 3));
    let optimizer = SGD::new(0.1);
    for jit in [true, false] {
        in_strict(jit, || {
            for _ in 0..CALLS {
                optimizer.step(&net, &x, |net, x| net.call(x).square().mean(()));
                assert_eq!(forms(&net.weight), 0, "compiled: {jit}");
            }
        });
    }
}

/// Several threads share a cached packed operand while one thread writes the slot.
#[test]
fn on_several_threads() {
    let (w, x) = (slot(1), numbers([SIZES[0], SIZES[1]], 3));
    let values = [weight(1), weight(2)];
    let wanted = values.each_ref().map(|it| in_strict(true, || bits(&of_argument(it, &x))));
    std::thread::scope(|scope| {
        for jit in [true, false, true] {
            let (w, x, wanted) = (&w, &x, &wanted);
            scope.spawn(move || {
                in_strict(jit, || (0..100).for_each(|_| assert!(wanted.contains(&bits(&product(w, x))))));
            });
        }
        for at in 0..40 {
            w.set(&values[at % 2]);
            std::thread::yield_now();
        }
    });
}
