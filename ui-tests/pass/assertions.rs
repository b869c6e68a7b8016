// `assert!` and similar macros on host values and on tensors; a failure is the error of the call.
use ms::prelude::*;

#[jit]
fn positive(x: &Tensor, names: &[String]) -> Result<Tensor> {
    assert!(names.len() < 3, "too many: {names:?}");
    assert_eq!(x.rank(), 1);
    assert!(x > 0.0);
    debug_assert!(names.is_empty() || x < 100.0);
    Ok(x * 2.0)
}

#[test]
fn main() {
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let run = |values: &[f32], names: usize| {
                positive(&Tensor::from_slice([values.len()], values), &vec!["name".to_owned(); names])
            };
            assert_eq!(run(&[1.0, 2.0], 1).expect("all hold").to_vec::<f32>(), [2.0, 4.0]);
            let error = run(&[1.0, -2.0], 1).and_then(|it| it.try_array()).expect_err("one does not hold");
            assert_eq!(error.code(), ms::Code::Assertion, "{error}");
            assert!(error.to_string().contains("x > 0.0"), "{error}");
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| {}));
            assert!(std::panic::catch_unwind(|| run(&[1.0], 3)).is_err());
            std::panic::set_hook(hook);
        });
    }
}
