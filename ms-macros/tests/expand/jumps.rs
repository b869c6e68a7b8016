#[body]
fn guards(x: &Tensor) -> Result<Tensor> {
    let y = parse(x)?;
    if y > 8.0 {
        return Ok(y);
    }
    Ok(y + 1.0)
}

#[body]
fn labels_and_return(x: &Tensor) -> Tensor {
    'outer: for _ in 0..3 {
        while x < 100.0 {
            if x == 64.0 {
                return x * 2.0;
            }
            continue 'outer;
        }
        break;
    }
    x
}

#[body]
fn labelled_block(x: &Tensor, y: &Tensor) -> Tensor {
    let larger = 'found: {
        if x > y {
            break 'found x * 2.0;
        }
        x + y
    };
    larger + 1.0
}
