//! What programs on references share: functions that write through a `&mut`, and the runner of cases.

use ms::prelude::*;

pub fn put(y: &mut Tensor, x: &Tensor) {
    *y = x.clone();
}

pub fn helper(y: &mut Tensor, x: &Tensor) {
    *y = &*y * x;
}

pub fn number(it: f32) -> Tensor {
    Tensor::scalar(it)
}

pub fn numbers<'a>(all: impl IntoIterator<Item = &'a Tensor>) -> Vec<f32> {
    all.into_iter().map(|it| it.item::<f32>()).collect()
}

/// A name, a program that maps a number to the values that it computes, and these values for 0.5 and
/// for 2.
pub type Case = (&'static str, fn(f32) -> Vec<f32>, [&'static [f32]; 2]);

/// Runs every case eagerly, compiled, and compiled again.
pub fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (name, case, want) in cases {
        for (x, want) in [0.5, 2.0].into_iter().zip(want) {
            for jit in [false, true, true] {
                let got = ms::catch(|| ms::with_context(Context { jit, ..ms::context() }, || case(x)));
                if !got.as_ref().is_ok_and(|it| it == want) {
                    wrong.push(format!("{name} of {x}, compiled {jit}: {got:?} instead of {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
