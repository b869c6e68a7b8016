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

fn main() {
    let run = |how, n| pick(&Tensor::scalar(1.0f32), how, n).item::<f32>();
    for _ in 0..2 {
        assert_eq!([run("plain", 0), run("plain", 1), run("plain", 4), run("other", 4)], [1.0, 2.5, 3.0, 4.0]);
        assert_eq!([run("negative", 2), run("plain", -1)], [-2.0, -0.5]);
    }
}
