#[body]
fn handed_on(y: &mut Tensor, x: &Tensor) {
    let t = (&mut *y, 1);
    if x > 1.0 {
        put(t.0, x);
        apply(move || put(y, x));
    }
}

#[body]
fn items(all: &mut Vec<Tensor>, x: &Tensor) {
    for (i, t) in all.iter_mut().enumerate() {
        if &*t > 1.0 {
            put(t, &(x * i));
        }
    }
}

#[body]
fn right_side(y: &mut Tensor, x: &Tensor) -> Tensor {
    x > 1.0 && yes(y, x)
}

#[body]
fn asked(x: &Tensor, cache: &Cache) {
    let w = pick(x);
    if x > 1.0 {
        put(w, x);
        cache.best.set(1);
    }
    for _ in ms::range(0, 3) {
        w.step(x);
    }
}
