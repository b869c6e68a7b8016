//! Host control flow in annotated code is plain Rust: deferred `let`, moves in both arms, coercions
//! across arms, references as state, `?` in conditions, labels, `let else`, let chains.
use ms::prelude::*;

struct NotClone(usize);

fn eat(it: NotClone) -> usize {
    it.0
}

#[jit]
fn f(x: &Tensor, n: usize, text: &str) -> Result<Tensor> {
    let deferred;
    if n > 2 {
        deferred = 1;
    } else {
        deferred = 2;
    }
    let it = NotClone(n);
    let eaten = if n > 2 { eat(it) } else { it.0 + deferred };
    let list = vec![1, 5, 3];
    let slice: &[i32] = if eaten > 1 { &list } else { &[1] };
    let mut best = &slice[0];
    for it in slice {
        if it > best {
            best = it;
        }
    }
    let Some(first) = text.chars().next() else { return Ok(x.clone()) };
    let boxed: Box<dyn Fn(&Tensor) -> Tensor> =
        if first == 'a' { Box::new(|x| x + 1.0) } else { Box::new(move |x| x * n as f64) };
    let found = 'search: loop {
        for i in 0.. {
            if i * i >= n && i % 2 == 0 {
                break 'search i;
            }
        }
    };
    Ok(boxed(x) + *best as f64 + found as f64)
}

#[test]
fn main() -> Result<()> {
    let x = Tensor::scalar(1.0f32);
    assert_eq!(f(&x, 3, "a")?.item::<f32>(), 1.0 + 1.0 + 5.0 + 2.0);
    assert_eq!(f(&x, 0, "b")?.item::<f32>(), 0.0 + 5.0 + 0.0);
    assert_eq!(f(&x, 0, "")?.item::<f32>(), 1.0);
    Ok(())
}
