//! Tests references and cells that are passed on in regions.

use super::check;
use ms::Code;
use ms::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn put(y: &mut Tensor, x: &Tensor) {
    *y = x.clone();
}

fn pick<'a>(a: &'a mut Tensor, _: &'a mut Tensor) -> &'a mut Tensor {
    a
}

fn apply(mut f: impl FnMut()) {
    f()
}

struct Hold<'a> {
    t: &'a mut Tensor,
}

fn hold(t: &mut Tensor) -> Hold<'_> {
    Hold { t }
}

impl Hold<'_> {
    fn put(self, x: &Tensor) {
        put(self.t, x);
    }
}

/// The syntax does not show that a name is a reference, but its type shows it.
#[test]
fn references_of_inferred_types_are_passed_on() {
    #[jit]
    fn argument(x: &Tensor) -> Tensor {
        let (mut a, mut b) = (x.clone(), x.clone());
        let w = pick(&mut a, &mut b);
        if x > 1.0 {
            put(w, x);
        }
        a
    }
    #[jit]
    fn receiver(x: &Tensor) -> Tensor {
        let (mut a, mut b) = (x.clone(), x.clone());
        let w = pick(&mut a, &mut b);
        if x > 1.0 {
            w.clone_from(x);
        }
        a
    }
    #[jit]
    fn field(x: &Tensor) -> Tensor {
        let mut a = x.clone();
        let h = hold(&mut a);
        if x > 1.0 {
            put(h.t, x);
        }
        a
    }
    #[jit]
    fn whole(x: &Tensor) -> Tensor {
        let mut a = x.clone();
        let h = Hold { t: &mut a };
        if x > 1.0 {
            h.put(x);
        }
        a
    }
    #[jit]
    fn taken_out(x: &Tensor) -> Tensor {
        let mut a = x.clone();
        let o = Some(&mut a).filter(|_| true);
        if x > 1.0 {
            put(o.expect("it is kept"), x);
        }
        a
    }
    #[jit]
    fn matched(x: &Tensor) -> Tensor {
        let mut a = x.clone();
        let o = Some(&mut a);
        if x > 1.0
            && let Some(w) = o
        {
            put(w, x);
        }
        a
    }
    #[jit]
    fn bound_beside(x: &Tensor) -> Tensor {
        fn some(t: &mut Tensor) -> Option<&mut Tensor> {
            Some(t)
        }
        let mut a = x.clone();
        let o = some(&mut a);
        if let Some(w) = o
            && x > 1.0
        {
            put(w, x);
        }
        a
    }
    #[jit]
    fn in_a_loop(x: &Tensor) -> Tensor {
        let (mut a, mut b) = (x.clone(), x.clone());
        let w = pick(&mut a, &mut b);
        for _ in ms::range(0, 3) {
            w.clone_from(x);
        }
        a
    }
    #[jit]
    fn after_a_jump(x: &Tensor) -> Tensor {
        let (mut a, mut b) = (x.clone(), x.clone());
        let w = pick(&mut a, &mut b);
        'block: {
            if x > 1.0 {
                break 'block;
            }
            w.clone_from(x);
        }
        a
    }
    #[jit]
    fn right_side(x: &Tensor) -> Tensor {
        fn yes(y: &mut Tensor, x: &Tensor) -> bool {
            put(y, x);
            true
        }
        let (mut a, mut b) = (x.clone(), x.clone());
        let w = pick(&mut a, &mut b);
        let both = x > 1.0 && yes(w, x);
        ops::select(&both, a, x)
    }
    #[jit]
    fn slice(x: &Tensor) -> Tensor {
        let mut a = [x.clone(), x.clone()];
        for part in a.chunks_mut(1) {
            if x > 1.0 {
                part.reverse();
            }
        }
        a[0].clone()
    }
    #[jit]
    fn closure(x: &Tensor) -> Tensor {
        let mut a = x.clone();
        let f = || a = x * 2.0;
        if x > 1.0 {
            apply(f);
        }
        a
    }
    check(&[
        ("argument", argument, Code::HandedOn, &["MS034", "`w` (`&mut Tensor`)", "write `&mut *w`", "references.rs"]),
        ("receiver", receiver, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("field", field, Code::HandedOn, &["`h.t` (`&mut Tensor`)", "write `&mut *h.t`"]),
        ("whole", whole, Code::HandedOn, &["`h` (`Hold", "`&mut` of what changes"]),
        ("taken_out", taken_out, Code::HandedOn, &["`o` (`Option<&mut Tensor>`)"]),
        ("matched", matched, Code::HandedOn, &["`o` (`Option<&mut Tensor>`)"]),
        ("bound_beside", bound_beside, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("in_a_loop", in_a_loop, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("after_a_jump", after_a_jump, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("right_side", right_side, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("slice", slice, Code::HandedOn, &["`part` (`&mut [Tensor]`)", "the whole variable"]),
        ("closure", closure, Code::HandedOn, &["`f`, a closure that changes `a`"]),
    ]);
}

/// The syntax does not show interior mutability.
#[test]
fn cells_change_in_decisions() {
    #[jit]
    fn borrowed(x: &Tensor) -> Tensor {
        let c = RefCell::new(x.clone());
        if x > 1.0 {
            *c.borrow_mut() = x * 2.0;
        }
        c.into_inner()
    }
    #[jit]
    fn replaced(x: &Tensor) -> Tensor {
        let c = RefCell::new(x.clone());
        if x > 1.0 {
            c.replace(x * 2.0);
        }
        c.into_inner()
    }
    #[jit]
    fn counted(x: &Tensor) -> Tensor {
        let n = Cell::new(0);
        if x > 1.0 {
            n.set(n.get() + 1);
        }
        x * n.get()
    }
    #[jit]
    fn lent(x: &Tensor) -> Tensor {
        fn fill(c: &RefCell<Tensor>, x: &Tensor) {
            c.replace(x.clone());
        }
        let c = RefCell::new(x.clone());
        while x < 1.0 {
            fill(&c, x);
        }
        c.into_inner()
    }
    #[jit]
    fn given_away(x: &Tensor) -> Tensor {
        fn fill(c: Rc<RefCell<Tensor>>, x: &Tensor) {
            c.replace(x.clone());
        }
        let c = Rc::new(RefCell::new(x.clone()));
        let d = c.clone();
        if x > 1.0 {
            fill(d, x);
        }
        c.borrow().clone()
    }
    #[jit]
    fn argument(x: &Tensor) -> Tensor {
        let f = |c: &RefCell<Tensor>| {
            if x > 1.0 {
                c.replace(x * 2.0);
            }
        };
        let c = RefCell::new(x.clone());
        f(&c);
        c.into_inner()
    }
    check(&[
        ("borrowed", borrowed, Code::SharedChange, &["MS035", "`c` (`RefCell<Tensor>`)", "references.rs"]),
        ("replaced", replaced, Code::SharedChange, &["`c` (`RefCell<Tensor>`)"]),
        ("counted", counted, Code::SharedChange, &["`n` (`Cell<i32>`)"]),
        ("lent", lent, Code::SharedChange, &["`c` (`RefCell<Tensor>`)"]),
        ("given_away", given_away, Code::SharedChange, &["`d` (`Rc<RefCell<Tensor>>`)"]),
        ("argument", argument, Code::SharedChange, &["`c` (`&RefCell<Tensor>`)"]),
    ]);
}

/// Code other than tensor ops changes the target of a reference.
#[test]
fn host_values_behind_references() {
    fn keep(v: &mut Vec<Tensor>, x: &Tensor) {
        v.push(x.clone());
    }
    fn count(n: &mut i32) {
        *n += 1;
    }
    fn mark(b: &mut bool) {
        *b = true;
    }
    #[jit]
    fn grows(x: &Tensor) -> Tensor {
        let mut v = vec![x.clone()];
        let r = &mut v;
        if x > 1.0 {
            keep(r, x);
        }
        x * v.len()
    }
    #[jit]
    fn counted(x: &Tensor) -> Tensor {
        let mut n = 0;
        let r = &mut n;
        if x > 1.0 {
            count(r);
        }
        x * n
    }
    #[jit]
    fn marked(x: &Tensor) -> Tensor {
        let mut seen = false;
        let s = &mut seen;
        if x > 1.0 {
            mark(s);
        }
        if seen { x * 100.0 } else { x.clone() }
    }
    check(&[
        ("grows", grows, Code::HostChange, &["MS041", "`r`"]),
        ("counted", counted, Code::HostChange, &["`r`", "i32"]),
        ("marked", marked, Code::HostChange, &["`s`", "bool"]),
    ]);
}
