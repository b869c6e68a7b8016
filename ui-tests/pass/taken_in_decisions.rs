// A `let mut` variable that a method consumes in a branch may move, unless it is mentioned after the branch.
use ms::prelude::*;

#[jit]
fn arm(x: &Tensor) -> Tensor {
    let mut o = Some(x * 2.0);
    o = o.filter(|_| true);
    let mut y = x.clone();
    if x > 1.0 {
        y = o.unwrap_or_else(|| x * 3.0);
    } else {
        y += 1.0;
    }
    y
}

#[jit]
fn rest(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for i in 0..3 {
        let mut o = None;
        o.get_or_insert(x * i);
        if y > 3.0 {
            break;
        }
        let v = o.unwrap_or_else(|| x * 3.0);
        y += v;
    }
    y
}

#[jit]
fn seen(x: &Tensor) -> Tensor {
    let mut all = vec![x * 2.0, x * 3.0];
    all.swap(0, 1);
    if x > 3.0 {
        return x.clone();
    }
    let y: Vec<Tensor> = all.into_iter().map(|it| it + 1.0).collect();
    &y[0] - &y[1]
}

/// A method that takes nothing, and has the name of one that does.
trait Expect {
    fn expect(&mut self, x: &Tensor) -> Tensor;
}

impl Expect for Vec<Tensor> {
    fn expect(&mut self, x: &Tensor) -> Tensor {
        self[0] = &self[0] + x;
        self[0].clone()
    }
}

#[jit]
fn changed(x: &Tensor) -> Tensor {
    let (mut a, mut b, mut c, mut d) = (vec![x * 2.0], vec![x * 3.0], vec![x * 4.0], vec![x * 5.0]);
    let mut y = x.clone();
    if x > 1.0 {
        y = a.expect(x);
    } else {
        y += &a[0];
    }
    if x > 1.0 {
        y += b.expect(x);
    }
    for _ in 0..2 {
        if x > 1.0 {
            y += c.expect(&y);
        }
    }
    let both = (if x > 1.0 { d.expect(x) } else { x.clone() }, d[0].clone());
    y + &b[0] + both.0 * both.1
}

#[test]
fn main() {
    let eager = ms::Context { jit: false, ..ms::context() };
    for x in [0.5f32, 2.0, 4.0] {
        let all = || [arm, rest, seen, changed].map(|it| it(&Tensor::scalar(x)).item::<f32>());
        assert_eq!(all(), ms::with_context(eager.clone(), all), "{x}");
    }
}
