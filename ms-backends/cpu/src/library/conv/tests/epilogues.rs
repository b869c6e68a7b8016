//! Tests epilogues of convolutions, which run once on each element of the result.

use crate::library::EagerOp;
use ms_compile::exec::TileArguments;
use ms_compile::lower::image_axes;
use ms_ir::data::{Array, Attrs, Layout, Scalar, Type};
use ms_ir::{Kernel, LoopArguments};
use ms_ops::ops;
use ms_x64::KernelCode;
use ms_x64::gemm::{Arithmetic, Epilogue};

/// A kernel that negates elements in place; `size` is their size in bytes, and its loops are the image axes.
struct Negate {
    loops: usize,
    size: usize,
}

// SAFETY: `call` accesses only the elements that the argument block addresses.
unsafe impl KernelCode for Negate {
    unsafe fn call(&self, block: &[u64]) {
        let (extents, rest) = block.split_at(self.loops);
        let (first, strides) = (rest[0] as *mut u8, &rest[1..=self.loops]);
        let count: u64 = extents.iter().product();
        for number in 0..count {
            let mut left = number;
            let mut at = 0;
            for (extent, stride) in extents.iter().zip(strides).rev() {
                at += left % extent * stride;
                left /= extent;
            }
            // SAFETY: `at` is an element that the argument block addresses, which is writable. A float's sign is the
            // highest bit of its last byte.
            unsafe { *first.add(at as usize + self.size - 1) ^= 0x80 };
        }
    }
}

/// Returns the convolution with an epilogue that negates the result; `None` if the result has one element.
pub fn negated(arithmetic: Arithmetic, attrs: &Attrs, inputs: [&Array; 2]) -> Option<Array> {
    let types = inputs.map(Array::ty);
    let ty: Type = (ops::CONV.infer)(attrs, &[&types[0], &types[1]]).expect("the operands fit").remove(0);
    let shape = ty.shape().expect("constant sizes");
    let axes = image_axes(&shape);
    if axes.is_empty() {
        return None;
    }
    let text = format!(
        "kernel par={} lanes=parallel seq=0 in %x: f32 unit out %y: f32 unit point: x = load %x y = neg x store %y, y",
        axes.len() - 1
    );
    let kernel = Kernel::parse(&text).expect("it is a kernel");
    let out = Array::full(&shape, Scalar::Float(7.0), ty.dtype);
    let size = ty.dtype.size();
    let strides = Layout::contiguous(&axes).strides().iter().map(|it| (it * size as isize) as u64).collect::<Vec<_>>();
    let mut arguments: Vec<u64> = axes.iter().map(|&it| it as u64).collect();
    for _ in 0..2 {
        arguments.push(out.device_ptr() as u64);
        arguments.extend(&strides);
    }
    let words = TileArguments { loops: LoopArguments::of(&kernel), axes: axes.len(), result: None, by_rows: false };
    let code = Negate { loops: axes.len(), size };
    let to = std::slice::from_ref(&out);
    let epilogue = Epilogue { code: &code, arguments: &arguments, words };
    let op = EagerOp::new(arithmetic, ops::CONV.op(), attrs.clone());
    // SAFETY: the output has the type of the type rule, and only this call accesses it. The kernel writes each of its
    // elements.
    unsafe { op.run(&inputs, to, &[epilogue]) }.expect("there is memory");
    Some(out)
}
