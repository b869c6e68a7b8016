//! Workloads without layers: call overhead, elementwise chains, row reductions, a matrix product.

use crate::{Workload, needs};
use ms::prelude::*;
use std::hint::black_box;

#[jit]
fn add(x: &Tensor, y: &Tensor) -> Tensor {
    x + y
}

#[jit]
fn unrolled(x: &Tensor, y: &Tensor) -> Tensor {
    let mut o = x.clone();
    for _ in 0..200 {
        o = x + x * y + o;
    }
    o
}

#[jit]
fn branches(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut out = Tensor::zeros_like(&x);
    for _ in 0..100 {
        if &x < y {
            x = &x - y;
        } else {
            x = &x + y;
        }
        out = out + &x;
    }
    out
}

#[jit]
fn counted(x: &Tensor) -> Tensor {
    let mut i = Tensor::scalar(0i32);
    let mut x = x.clone();
    while i < 1000 {
        x = x * 0.999 + 0.001;
        i = i + 1;
    }
    x
}

#[jit]
fn hswish(x: &Tensor) -> Tensor {
    ms::vmap(|x: &Tensor| ops::hswish(x))(x)
}

fn chain_of(x: &Tensor, y: &Tensor) -> Tensor {
    ops::gelu_tanh(x * 1.5 + y) * y.sigmoid() - (-x.abs()).exp()
}

#[jit]
fn chain(x: &Tensor, y: &Tensor) -> Tensor {
    chain_of(x, y)
}

#[jit]
fn softmax_norm(x: &Tensor, g: &Tensor, b: &Tensor) -> Tensor {
    ops::layer_norm(ops::softmax(x, -1), Some(g), Some(b), -1, 1e-5)
}

#[jit]
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    x.matmul(y)
}

fn normal(shape: &[usize]) -> Tensor {
    random::normal(shape.to_vec(), 0.0, 1.0)
}

/// Prepares calls of a function on two tensors of this shape.
fn of_two(shape: &[usize], f: fn(&Tensor, &Tensor) -> Tensor) -> Box<dyn FnMut()> {
    let (x, y) = (normal(shape), normal(shape));
    Box::new(move || drop(black_box(f(&x, &y))))
}

const ROWS: [usize; 2] = [4096, 1024];

pub fn workloads() -> Vec<Workload> {
    let one = needs(1, 3);
    // The chain has ten plain operations, and three functions that count as ten each.
    let chain_needs = |size: usize| needs(40 * size, 3 * size);
    let [rows, columns] = ROWS;
    vec![
        Workload { name: "add1", make: || of_two(&[1], |x, y| add(x, y)), needs: one },
        Workload { name: "add1_eager", make: || of_two(&[1], |x, y| x + y), needs: one },
        Workload { name: "loop200", make: || of_two(&[1], |x, y| unrolled(x, y)), needs: needs(600, 3) },
        Workload {
            name: "if100",
            make: || {
                let (x, y) = (tensor![0i32], tensor![1i32]);
                Box::new(move || drop(black_box(branches(&x, &y))))
            },
            needs: needs(300, 3),
        },
        Workload {
            name: "while1000",
            make: || {
                let x = normal(&[1]);
                Box::new(move || drop(black_box(counted(&x))))
            },
            needs: needs(3000, 2),
        },
        Workload {
            name: "vmap_hswish",
            make: || {
                let x = normal(&[100, 2]) * 100.0;
                Box::new(move || drop(black_box(hswish(&x))))
            },
            needs: needs(4 * 200, 2 * 200),
        },
        Workload { name: "ew_chain_64k", make: || of_two(&[1 << 16], |x, y| chain(x, y)), needs: chain_needs(1 << 16) },
        Workload { name: "ew_chain_64k_eager", make: || of_two(&[1 << 16], chain_of), needs: chain_needs(1 << 16) },
        Workload { name: "ew_chain_16m", make: || of_two(&[1 << 24], |x, y| chain(x, y)), needs: chain_needs(1 << 24) },
        Workload { name: "ew_chain_16m_eager", make: || of_two(&[1 << 24], chain_of), needs: chain_needs(1 << 24) },
        Workload {
            name: "softmax_ln",
            make: || {
                let (x, g, b) = (normal(&ROWS), normal(&ROWS[1..]), normal(&ROWS[1..]));
                Box::new(move || drop(black_box(softmax_norm(&x, &g, &b))))
            },
            needs: needs(22 * rows * columns, 2 * rows * columns + 2 * columns),
        },
        Workload {
            name: "gemm1024",
            make: || of_two(&[1024, 1024], |x, y| product(x, y)),
            needs: needs(2 << 30, 3 << 20),
        },
    ]
}
