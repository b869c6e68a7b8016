// The source of the items of a host loop can be used after the loop unless a tensor leaves the loop early (MS041).
use ms::prelude::*;

/// Nobody sees what is left.
#[jit]
fn unseen(v: &[Tensor]) -> Tensor {
    let mut y = Tensor::scalar(0.0f32);
    let mut it = v.iter();
    while let Some(t) = it.next() {
        if t > 2.0 {
            break;
        }
        y += t;
    }
    let mut it = v.to_vec().into_iter();
    for t in it.by_ref() {
        if &t > 1.0 {
            break;
        }
        y += t;
    }
    let mut stack = v.to_vec();
    while let Some(t) = stack.pop() {
        if t > 2.0 {
            continue;
        }
        y += t;
    }
    y * stack.len().max(1)
}

/// Behind a loop that only `return` leaves.
#[jit]
fn returns(v: &[Tensor]) -> Tensor {
    let mut stack = v.to_vec();
    while let Some(t) = stack.pop() {
        if t > 2.0 {
            return t;
        }
    }
    &v[0] * stack.len()
}

/// A list stays as it is while its items change, and each round of a loop begins anew.
#[jit]
fn items(v: &[Tensor]) -> Tensor {
    let mut all = v.to_vec();
    for t in &mut all {
        if &*t > 1.0 {
            break;
        }
        *t = &*t * 10.0;
    }
    for t in all.iter_mut() {
        if &*t > 100.0 {
            break;
        }
        *t = &*t + 1.0;
    }
    let mut y = &all[0] + &all[1];
    for _ in 0..2 {
        let mut it = all.iter();
        while let Some(t) = it.next() {
            if t > 2.0 {
                break;
            }
            y += t;
        }
    }
    y
}

/// A number decides.
#[jit]
fn host(v: &[Tensor], end: usize) -> Tensor {
    let (mut it, mut n) = (v.iter(), 0);
    while let Some(_) = it.next() {
        if n == end {
            break;
        }
        n += 1;
    }
    for _ in it.by_ref() {
        if n == end {
            break;
        }
    }
    &v[0] * (it.count() + 1)
}

#[test]
fn main() {
    let v = [0.5f32, 1.5, 2.5].map(Tensor::scalar);
    let all = || [unseen(&v), returns(&v), items(&v), host(&v, 0)].map(|it| it.item::<f32>());
    let eager = ms::Context { jit: false, ..ms::context() };
    assert_eq!(all(), ms::with_context(eager, all));
}
