#[body]
fn f(x: &Tensor, n: usize, names: &[String]) -> Result<Tensor> {
    let mut i = 0;
    while i < names.len() && check(&names[i])? > 2 {
        i += 1;
    }
    if n == "4".parse()? && i != n {
        return Ok(x.clone());
    }
    if x > 0.5 || flag {
        assert!(x < n, "x is too large");
        assert!(n < 9, "never {n}");
    }
    let mask = x == 1.0;
    for (k, name) in names.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        if k == n - 1 {
            break;
        }
    }
    let first = loop {
        if n > 5 {
            break x;
        }
        i += 1;
    };
    if let Some(first) = names.first() && first < "a" && x <= n {
        return fail(first);
    }
    match n {
        3 if x >= &mask => make(x),
        m if m > 2 => (0..m).map(|k| k < m && x.shape() != [k]).collect(),
        _ => Ok(x.clone()),
    }
}
