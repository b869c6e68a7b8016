#[body]
fn statement(x: &Tensor, y: &Tensor) -> Tensor {
    let mut sum = x + y;
    if x < y {
        sum += 1.0;
    }
    sum
}

#[body]
fn value(x: &Tensor, pair: &mut Pair) -> Tensor {
    let half: Tensor = if x > 0.5 && pair.flag {
        pair.left = x * 2.0;
        combine(x.clone(), pair)
    } else if let Some(other) = pair.other.as_ref() && other == x {
        other.clone()
    } else {
        -x
    };
    half
}

#[body]
fn deferred(x: &Tensor, config: &Config) -> Tensor {
    let scale;
    if config.large {
        scale = 2.0;
    } else {
        scale = 1.0;
    }
    x * scale
}

#[body]
fn choose(x: &Tensor) -> Tensor {
    match x {
        2 | 3 => x * 10,
        other => -other,
    }
}
