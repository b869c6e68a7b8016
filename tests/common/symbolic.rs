//! Compares compiled functions of symbolic sizes with eager execution.

use ms::__rt::{Arg, JitFn, Size, Sizes, type_key};
use ms::prelude::*;

/// A function of several arguments.
pub type Function = fn(&[Tensor]) -> Tensor;

/// The sizes of an argument: each is a name, or `_`.
pub type Axes = &'static [&'static str];

/// The shapes of the arguments of a call.
pub type Shapes<'a> = &'a [&'a [usize]];

/// Returns numbers between -1 and 1.
pub fn data(shape: &[usize]) -> Tensor {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

/// A compiled function of the arguments `x`, `y` and `z` with declared sizes.
pub struct Symbolic<'a> {
    function: &'static JitFn,
    sizes: Vec<&'static Sizes>,
    body: &'a dyn Fn(&[Tensor]) -> Tensor,
}

impl<'a> Symbolic<'a> {
    /// Creates a function that has not been compiled yet.
    pub fn new(arguments: &[Axes], body: &'a dyn Fn(&[Tensor]) -> Tensor) -> Self {
        let axis = |&name: &&'static str| if name == "_" { Size::Fixed } else { Size::Symbol(name) };
        let sizes = |(axes, argument): (&Axes, &'static str)| -> &'static Sizes {
            let axes: Vec<Size> = axes.iter().map(axis).collect();
            Box::leak(Box::new(Sizes { argument, axes: axes.leak() }))
        };
        let function = Box::leak(Box::new(JitFn::new("f", file!(), line!(), 0)));
        Self { function, sizes: arguments.iter().zip(["x", "y", "z"]).map(sizes).collect(), body }
    }

    /// Calls the function.
    pub fn call(&self, inputs: &[Tensor]) -> ms::Result<Tensor> {
        let mut call = self.function.begin(type_key(&|| {}), |sink| {
            for (input, sizes) in inputs.iter().zip(&self.sizes) {
                sink.argument(sizes.argument);
                sink.sizes(Some(sizes));
                input.visit(sink);
            }
            sink.sizes(None);
        });
        if let Some(known) = call.cached() {
            return known;
        }
        let entered: Vec<Tensor> = inputs.iter().map(|it| (*call.enter(it)).clone()).collect();
        call.finish(|| Ok((self.body)(&entered)))
    }

    /// Returns the number of compiled versions.
    pub fn versions(&self) -> usize {
        self.function.versions()
    }
}

/// Checks that one compilation agrees with eager execution for all shapes, and returns the differences.
pub fn compare(arguments: &[Axes], shapes: &[Shapes], body: &dyn Fn(&[Tensor]) -> Tensor) -> Result<(), String> {
    let compiled = Symbolic::new(arguments, body);
    for shapes in shapes {
        let inputs: Vec<Tensor> = shapes.iter().map(|it| data(it)).collect();
        let got = compiled.call(&inputs).map_err(|error| format!("{shapes:?}: {error}"))?;
        let want = body(&inputs);
        if (got.shape(), got.dtype()) != (want.shape(), want.dtype()) {
            return Err(format!("{shapes:?}: {:?} {:?}", got.ty(), want.ty()));
        }
        let values = |it: &Tensor| it.cast(DType::F32).to_vec::<f32>();
        for (a, b) in values(&got).into_iter().zip(values(&want)) {
            let near = (a - b).abs() <= 1e-5 * b.abs().max(1.0) || (a.is_nan() && b.is_nan()) || a == b;
            if !near {
                return Err(format!("{shapes:?}: {a}, not {b}"));
            }
        }
    }
    if compiled.versions() == 1 { Ok(()) } else { Err(format!("{} versions", compiled.versions())) }
}
