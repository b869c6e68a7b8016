//! Which kernels elementwise ops share, counted by a backend that computes nothing.

use super::{Operands, fast_path, map};
use crate::error::{Code, Error, Result};
use crate::exec::{Artifact, Backend, Executable, KernelCode};
use crate::ir::{Kernel, Precision, Role};
use crate::lower::{Plan, Target};
use crate::ops::{ADD, SELECT};
use crate::tensor::{Array, Attrs, DType, Layout, Op, OpCall, Scalar, Tensor, Value};
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// The blocks of calls, in order.
type Blocks = Arc<Mutex<Vec<Vec<u64>>>>;

/// A backend that keeps kernels and blocks of calls; results are zero.
struct Recording {
    target: Target,
    kernels: Mutex<Vec<Kernel>>,
    blocks: Blocks,
}

/// A kernel of dense results.
struct Zeros {
    kernel: Kernel,
    blocks: Blocks,
}

// SAFETY: results are dense, and all their elements are written.
unsafe impl KernelCode for Zeros {
    unsafe fn call(&self, block: &[u64]) {
        assert_eq!(block.len(), self.kernel.call_words());
        let numel: u64 = block[..self.kernel.loops()].iter().product();
        let out = self.kernel.params.len() - 1;
        let bytes = numel as usize * self.kernel.params[out].dtype.size();
        // SAFETY: by the caller's contract, the result lies there.
        unsafe { (block[self.kernel.param_word(out)] as *mut u8).write_bytes(0, bytes) };
        self.blocks.lock().expect("no test panics here").push(block.to_vec());
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::new(Code::Backend, "the backend runs elementwise kernels only"))
}

// SAFETY: kernels write their results; everything else is refused.
unsafe impl Backend for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn fingerprint(&self) -> String {
        String::new()
    }

    fn sources(&self) -> &'static str {
        ""
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compile(&self, _: &Plan) -> Result<Artifact> {
        unsupported()
    }

    unsafe fn load(&self, _: Arc<Plan>, _: &Artifact) -> Result<Arc<dyn Executable>> {
        unsupported()
    }

    fn kernel(&self, kernel: &Kernel) -> Result<Arc<dyn KernelCode>> {
        kernel.check()?;
        self.kernels.lock().expect("no test panics here").push(kernel.clone());
        Ok(Arc::new(Zeros { kernel: kernel.clone(), blocks: self.blocks.clone() }))
    }

    unsafe fn product(&self, _: Precision, _: &Array, _: &Array, _: &Array) -> Result<()> {
        unsupported()
    }

    unsafe fn library(&self, _: Op, _: &Attrs, _: &[&Array], _: &[Array]) -> Result<()> {
        unsupported()
    }
}

impl Recording {
    fn new() -> Self {
        Self { target: Target::unbounded(), kernels: Mutex::default(), blocks: Blocks::default() }
    }

    /// Applies an op by the fast path if it takes the operands, and otherwise by loop nests.
    fn apply(&self, def: &'static crate::ops::OpDef, inputs: &[&Tensor]) -> Array {
        let (attrs, location) = (Attrs::none(), Location::caller());
        let call = OpCall { op: def.op(), attrs: &attrs, inputs, location };
        let mut operands = Operands::default();
        operands.extend(inputs).expect("nothing is traced");
        match fast_path::map(self, def, &call, &operands) {
            Some(out) => out.into_array(),
            None => map(self, def, &call, &operands),
        }
        .expect("the backend runs it")
    }

    /// The number of compiled kernels, and the last word of the last call.
    fn state(&self) -> (usize, u64) {
        let kernels = self.kernels.lock().expect("no test panics here");
        let blocks = self.blocks.lock().expect("no test panics here");
        (kernels.len(), *blocks.last().and_then(|it| it.last()).expect("a kernel was called"))
    }
}

fn number(value: f64) -> Tensor {
    Tensor::from_number(Scalar::Float(value), DType::F32)
}

fn has_array(number: &Tensor) -> bool {
    match number.as_value() {
        Ok(Value::Number(number)) => !format!("{number:?}").contains("uninit"),
        _ => panic!("a number is not an array"),
    }
}

/// All numbers of a dtype share one kernel, for dense operands and for others, and none of them becomes an array.
#[test]
fn numbers_share_a_kernel() {
    let x = Tensor::from_slice([2, 3], &[1.0f32; 6]);
    let strided =
        Tensor::from_array(Array::zeros(&[3, 2], DType::F32).with_layout(Layout::contiguous(&[3, 2]).permute(&[1, 0])));
    for x in [&x, &strided] {
        let backend = Recording::new();
        for value in [0.5f32, -0.0, f32::INFINITY] {
            let number = number(value.into());
            let sum = backend.apply(&ADD, &[x, &number]);
            assert_eq!((sum.shape(), sum.dtype()), (&[2, 3][..], DType::F32));
            assert_eq!(backend.state(), (1, value.to_bits().into()));
            assert!(!has_array(&number));
        }
        // Another place of the number is another kernel.
        backend.apply(&ADD, &[&number(2.0), x]);
        assert_eq!(backend.state(), (2, 2.0f32.to_bits().into()));
        let roles =
            backend.kernels.lock().expect("no test panics here")[1].params.iter().map(|it| it.role).collect::<Vec<_>>();
        assert_eq!(roles, [Role::Immediate, Role::Input, Role::Output]);
    }
}

/// An op may have numbers only, and its result has no dimensions.
#[test]
fn numbers_alone() {
    let backend = Recording::new();
    let condition = Tensor::from_number(Scalar::Bool(true), DType::Bool);
    for (then, other) in [(1.0, 2.0), (3.0, 4.0)] {
        let out = backend.apply(&SELECT, &[&condition, &number(then), &number(other)]);
        assert_eq!((out.shape(), out.dtype()), (&[][..], DType::F32));
        assert_eq!(backend.state(), (1, (other as f32).to_bits().into()));
    }
}
