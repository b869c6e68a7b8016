//! `match` on host values: literals, ranges, guards, bindings.
use ms::prelude::*;

#[jit]
fn pick(x: &Tensor, how: &str, n: i64) -> Tensor {
    let scaled = match n {
        0 => x.clone(),
        1 | 2 => x * 2.0,
        3..=9 if how == "plain" => x * 3.0,
        many @ 3.. => x * many,
        _ => -x,
    };
    match (how, n % 2 == 0) {
        ("negative", true) => -scaled,
        (_, even) => if even { scaled } else { scaled + 0.5 },
    }
}

/// What is matched may be of any type that only types tell, and of any form.
#[jit]
fn digits(x: &Tensor, n: usize) -> Tensor {
    let Some(half) = (n % 2 == 0).then(|| n / 2) else { return -x };
    match half % 3 {
        0 => x * 10.0,
        1 | 2 => match half / 3 {
            0 => x + 1.0,
            other => x + other as i64,
        },
        _ => x.clone(),
    }
}

#[test]
fn main() {
    let digits = |n| digits(&Tensor::scalar(1.0f32), n).item::<f32>();
    assert_eq!([0, 1, 2, 8, 12].map(digits), [10.0, -1.0, 2.0, 2.0, 10.0]);
    let run = |how, n| pick(&Tensor::scalar(1.0f32), how, n).item::<f32>();
    for _ in 0..2 {
        assert_eq!([run("plain", 0), run("plain", 1), run("plain", 4), run("other", 4)], [1.0, 2.5, 3.0, 4.0]);
        assert_eq!([run("negative", 2), run("plain", -1)], [-2.0, -0.5]);
    }
}
