//! Tests state that no name in a branch or a loop shows.

use super::check;
use ms::Code;
use ms::prelude::*;
use std::cell::RefCell;

/// Holds a tensor behind a trait object.
trait Store {
    fn keep(&self, t: &Tensor);
    fn get(&self) -> Tensor;
}

struct One(RefCell<Tensor>);

impl Store for One {
    fn keep(&self, t: &Tensor) {
        self.0.replace(t.clone());
    }

    fn get(&self) -> Tensor {
        self.0.borrow().clone()
    }
}

impl One {
    fn yes(&self, t: &Tensor) -> bool {
        self.keep(t);
        true
    }
}

fn hidden(t: &Tensor) -> Box<dyn Store> {
    Box::new(One(RefCell::new(t.clone())))
}

thread_local! {
    static KEPT: RefCell<Option<Tensor>> = const { RefCell::new(None) };
}

fn keep(t: &Tensor) {
    KEPT.with(|it| it.replace(Some(t.clone())));
}

fn kept() -> Tensor {
    KEPT.with(|it| it.borrow().clone()).unwrap_or_else(|| Tensor::scalar(0.5f32))
}

/// A tensor that a region stores in state that it does not carry is refused after the region.
///
/// The state holds the tensor of the region that was traced last: an outer tensor, or one that was created inside. The
/// user may be the other arm or another region.
#[test]
fn tensors_that_a_region_leaves_behind_are_refused() {
    #[jit]
    fn trait_object(x: &Tensor) -> Tensor {
        let s = hidden(x);
        if x > 1.0 {
            s.keep(&Tensor::scalar(9.0f32));
        }
        s.get() + 1.0
    }
    #[jit]
    fn made_inside(x: &Tensor) -> Tensor {
        let s = hidden(x);
        if x > 1.0 {
            s.keep(&(x * 2.0));
        }
        s.get()
    }
    #[jit]
    fn opaque_struct(x: &Tensor) -> Tensor {
        let (s, z) = (One(RefCell::new(x.clone())), x * 3.0);
        if x > 1.0 {
            s.keep(&z);
        }
        s.get()
    }
    #[jit]
    fn thread_local(x: &Tensor) -> Tensor {
        if x > 1.0 {
            keep(x);
        }
        kept() + 1.0
    }
    #[jit]
    fn other_arm(x: &Tensor) -> Tensor {
        let (s, z) = (hidden(x), x * 3.0);
        let mut y = x.clone();
        if x > 1.0 {
            s.keep(&z);
        } else {
            y += &s.get();
        }
        y
    }
    #[jit]
    fn right_side(x: &Tensor) -> Tensor {
        let (s, z) = (One(RefCell::new(x.clone())), x * 3.0);
        if x > 1.0 && s.yes(&z) { x.clone() } else { s.get() }
    }
    #[jit]
    fn body(x: &Tensor) -> Tensor {
        let (s, z, mut i) = (hidden(x), x * 3.0, Tensor::scalar(0.0f32));
        while i < x {
            s.keep(&z);
            i += 1.0;
        }
        s.get()
    }
    #[jit]
    fn counted(x: &Tensor) -> Tensor {
        let (s, z, mut y) = (hidden(x), x * 3.0, x.clone());
        for i in ms::range(0, 3) {
            s.keep(&z);
            y += &ops::cast(&i, DType::F32);
        }
        y * s.get()
    }
    #[jit]
    fn alike(x: &Tensor) -> Tensor {
        let (s, z) = (hidden(x), x * 3.0);
        let mut y = z.clone();
        if x > 1.0 {
            s.keep(&z);
        }
        if x > 2.0 {
            y = s.get();
        }
        y
    }
    #[jit]
    fn unchanged_in_a_loop(x: &Tensor) -> Tensor {
        let (s, mut y, mut i) = (hidden(&Tensor::scalar(0.0f32)), x * 3.0, Tensor::scalar(0.0f32));
        while i < x {
            if x > 1.0 {
                s.keep(&y);
            }
            y = s.get();
            i += 1.0;
        }
        y
    }
    #[jit]
    fn bound(x: &Tensor) -> Tensor {
        let (s, n, mut y) = (hidden(x), Tensor::scalar(3i64), x.clone());
        if x > 1.0 {
            s.keep(&n);
        }
        for _ in ms::range(0, s.get()) {
            y += 1.0;
        }
        y
    }
    #[jit]
    fn called(x: &Tensor) -> Tensor {
        let (s, z) = (hidden(x), x * 3.0);
        let choose = |it: &Tensor| {
            s.keep(&z);
            it.clone()
        };
        ops::cond(x.gt(1.0), choose, |it| it + 1.0, x) * s.get()
    }
    #[jit]
    fn read(x: &Tensor) -> Tensor {
        let s = hidden(&Tensor::scalar(0.5f32));
        if x > 1.0 {
            s.keep(&Tensor::scalar(9.0f32));
        }
        x * s.get().item::<f32>()
    }
    #[jit]
    fn early(x: &Tensor) -> Tensor {
        let (s, z) = (hidden(x), x * 3.0);
        if x > 1.0 {
            s.keep(&z);
        }
        if x > 2.0 {
            return s.get();
        }
        z
    }
    let help: &[&str] = &["left in a place its graph does not see", "`let mut`", "trait objects"];
    let named: &[&str] = &["the tensor of `y`", "left in a place"];
    check(&[
        ("a trait object", trait_object, Code::Escaped, help),
        ("made inside", made_inside, Code::Escaped, help),
        ("an opaque struct", opaque_struct, Code::Escaped, help),
        ("a thread-local", thread_local, Code::Escaped, help),
        ("the other arm", other_arm, Code::Escaped, help),
        ("the right side of `&&`", right_side, Code::Escaped, help),
        ("the body of a `while`", body, Code::Escaped, help),
        ("the body of a `for`", counted, Code::Escaped, help),
        ("both arms alike", alike, Code::Escaped, named),
        ("unchanged in a loop", unchanged_in_a_loop, Code::Escaped, named),
        ("the bound of a range", bound, Code::Escaped, help),
        ("an arm of `cond`", called, Code::Escaped, help),
        ("a value that is read", read, Code::Escaped, help),
        ("what is returned", early, Code::Escaped, help),
    ]);
}

/// Tensors that leave regions as values, in variables or in parameters belong to the enclosing region. A tensor of an
/// earlier trace belongs to none.
#[test]
fn results_of_regions_are_used_after_them() {
    #[jit]
    fn handed_on(x: &Tensor, slot: &Parameter) -> Tensor {
        let (z, n, s) = (x * 3.0, Tensor::scalar(3i64), hidden(x));
        let mut all = vec![x.clone(), z.clone()];
        if x > 1.0 {
            if x > 1.5 {
                all[0] = z.clone();
            } else {
                all[0] = z.clone();
            }
            let first = all[0].clone();
            all.swap(0, 1);
            all[1] = first;
            slot.set(&z.clone());
        }
        let other = z.clone();
        let mut y = if x > 3.0 { other.clone() } else { other.clone() };
        let mut i = Tensor::scalar(0.0f32);
        let bounds = if x > 3.0 { n.clone() } else { n.clone() };
        while i < 2.0 {
            y = y.clone();
            for _ in ms::range(0, &bounds) {
                all[1] += &y;
            }
            s.keep(&y);
            y += &s.get();
            i += 1.0;
        }
        s.keep(&z);
        keep(&all[0]);
        y + &all[0] + &all[1] + slot + s.get() + kept() + ops::cond(x.gt(1.0), |_| z.clone(), |_| z.clone(), x)
    }
    let slot = Parameter::new(Tensor::scalar(0.5f32), "slot");
    for x in [0.5f32, 1.25, 2.0, 4.0] {
        let run = |jit| {
            slot.set(&Tensor::scalar(0.5f32));
            ms::with_context(ms::Context { jit, ..ms::context() }, || {
                handed_on(&Tensor::scalar(x), &slot).item::<f32>()
            })
        };
        assert_eq!(run(true), run(false), "{x}");
    }

    #[jit]
    fn keeps(x: &Tensor) -> Tensor {
        if x > 1.0 {
            keep(&Tensor::scalar(9.0f32));
        }
        x.clone()
    }
    #[jit]
    fn takes(x: &Tensor) -> Tensor {
        let t = kept();
        if x > 1.0 { &t * 2.0 } else { t }
    }
    let x = Tensor::scalar(2.0f32);
    keeps(&x);
    assert_eq!((takes(&x).item::<f32>(), kept().item::<f32>()), (18.0, 9.0));
}
