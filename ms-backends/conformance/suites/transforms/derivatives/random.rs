//! Tests gradients of functions with a random structure.

use ms::At;
use ms::prelude::*;
use ms_conformance::process_of;

/// Returns a pseudorandom number.
pub(super) fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

/// A call that uses its arguments many times.
#[no_inline]
#[cell]
struct Mixed;

#[cell]
impl Mixed {
    fn construct(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let c = ops::sin(a) * b - a * 0.71;
        &c * b + ops::cos(b) * a - c
    }
}

/// Runs random statements on a few numbers: sums, products and sines of values with many uses, in nested loops,
/// branches and calls.
fn random_statements(state: &mut u64, pool: &mut Vec<Tensor>, depth: usize) {
    for _ in 0..2 + next(state) % 3 {
        let [a, b] = [(); 2].map(|()| pool[next(state) % pool.len()].clone());
        let at = next(state) % pool.len();
        let seed = next(state) as u64 | 1;
        // Nested statements capture the pool. They return one number or two.
        let inside = move |pool: &[Tensor], more: &[&Tensor]| {
            let mut pool: Vec<Tensor> = pool.iter().cloned().chain(more.iter().map(|&it| it.clone())).collect();
            random_statements(&mut seed.clone(), &mut pool, depth - 1);
            let last = pool.len() - 1;
            (pool[last].clone(), pool[last - 1].clone())
        };
        pool[at] = match next(state) % if depth > 0 { 11 } else { 5 } {
            0 => &a * &b,
            1 => &a * 0.37 + ops::sin(&b),
            2 => ops::cos(&a) - &b * &a,
            3 => &a + &b,
            4 => Mixed.call(&a, &b),
            5 => ops::fori_loop(0, 3, |_, it: &Tensor| inside(pool, &[it]).0 * 0.3, a),
            6 => {
                let body = |_: &Tensor, (p, q): &(Tensor, Tensor)| {
                    let (last, before) = inside(pool, &[p, q]);
                    (ops::cos(last), ops::sin(before))
                };
                let both = ops::fori_loop(0, 2, body, (a, b));
                pool.push(both.0);
                both.1
            }
            7 => {
                let goes_on = |(i, _): &(Tensor, Tensor)| i.lt(2.5);
                let body = |(i, it): &(Tensor, Tensor)| (i + 1.0, ops::cos(inside(pool, &[it]).0));
                ops::while_loop(goes_on, body, (Tensor::scalar(0.0f64), a)).1
            }
            // A value that both arms or an iteration leave unchanged is not a result in a graph, so all values change
            // here.
            8 => ops::cond(a.gt(&b), |it: &Tensor| ops::sin(inside(pool, &[it]).0), |it: &Tensor| it.clone(), &a),
            9 => {
                let one = |(p, q): &(Tensor, Tensor)| {
                    let (last, before) = inside(pool, &[p, q]);
                    (ops::cos(last), before)
                };
                let other = |(p, q): &(Tensor, Tensor)| (q.clone(), p * q);
                let both = ops::cond(b.gt(0.1), one, other, &(a, b));
                pool.push(both.1);
                both.0
            }
            _ => {
                let rows = ops::stack(&[&a, &b, &a], 0);
                let (last, all) = ops::scan(|it: &Tensor, x: &Tensor| inside(pool, &[it, x]), b, &rows);
                pool.push(all.sum(()));
                last
            }
        };
        // The sine keeps values in a range in which the last digit matters.
        pool[at] = ops::sin(&pool[at]);
    }
}

/// Computes a random function that the seed determines.
fn random_function(x: &Tensor, y: &Tensor, seed: &usize) -> Tensor {
    let mut pool = vec![x.clone(), y.clone(), x * y];
    random_statements(&mut (*seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), &mut pool, 2);
    pool.iter().skip(1).fold(pool[0].clone(), |sum, it| sum + it)
}

fn random_gradients(x: &Tensor, y: &Tensor, seed: &usize) -> (Tensor, Tensor) {
    ms::grad(random_function).wrt((At::<0>, At::<1>))(x, y, seed)
}

/// Gradients are sums of many terms. All modes round them in the same order, and so does the interpreter in a separate
/// process.
#[test]
fn gradients_of_random_structures_have_the_same_bits() {
    // The sign of zeros is ignored.
    let bits = |it: f64| (it + 0.0).to_bits();
    let strict = |jit| ms::Context { jit, precision: ms::Precision::Strict, ..ms::context() };
    let run = |jit, f: &dyn Fn() -> (Tensor, Tensor)| {
        let (x, y) = ms::with_context(strict(jit), f);
        [x, y].map(|it| bits(it.item::<f64>()))
    };
    let (x, y) = (Tensor::scalar(0.37).cast(DType::F64), Tensor::scalar(-0.81).cast(DType::F64));
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    for seed in 1..=44usize {
        let want = run(false, &|| random_gradients(&x, &y, &seed));
        let inside = run(true, &|| ms::jit(random_gradients)(&x, &y, &seed));
        let outside = run(true, &|| ms::grad(ms::jit(random_function)).wrt((At::<0>, At::<1>))(&x, &y, &seed));
        for (how, got) in [("inside", inside), ("outside", outside)] {
            if got != want {
                wrong.push((seed, how, got.map(f64::from_bits), want.map(f64::from_bits)));
            }
        }
        all.extend(want);
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:?}", wrong.len());
    let all = format!("bits {all:x?}");
    println!("{all}");
    if std::env::var_os("MS_CPU_ISA").is_none() {
        let mut test = process_of(concat!(module_path!(), "::gradients_of_random_structures_have_the_same_bits"));
        let output = test.arg("--nocapture").env("MS_CPU_ISA", "interp").output().expect("the test starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(&all), "interpreted: {text}, not {all}");
    }
}
