//! What decisions on tensors cannot change or leave, by the code and the words of the refusal.

use ms::Code;
use ms::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A program, the code that it is refused with, and words of the message.
type Case = (&'static str, fn(&Tensor) -> Tensor, Code, &'static [&'static str]);

#[track_caller]
fn check(cases: &[Case]) {
    for (name, f, code, words) in cases {
        let error = ms::catch(|| f(&Tensor::scalar(2.0f32))).expect_err(name);
        assert_eq!(error.code(), *code, "{name}: {error}");
        for word in *words {
            assert!(error.to_string().contains(word), "{name}: {word} is not in {error}");
        }
    }
}

/// A counter that something sees after the loop, or that one arm alone changes, has to be a tensor.
#[test]
fn host_values_that_tensors_change_are_refused() {
    #[jit]
    fn seen(x: &Tensor) -> Tensor {
        let mut i = 0;
        while i < 3 {
            if x > 1.0 {
                break;
            }
            i += 1;
        }
        x * i
    }
    #[jit]
    fn one_arm(x: &Tensor) -> Tensor {
        let mut s = 0.0;
        if x > 1.0 {
            s = 1.0;
        }
        x * s
    }
    #[jit]
    fn skipped(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        let mut i = 0;
        while i < 3 {
            i += 1;
            if x > 1.0 {
                i += 1;
                continue;
            }
            x += 1.0;
        }
        x
    }
    #[jit]
    fn grows(x: &Tensor) -> Tensor {
        let mut all = vec![x.clone()];
        while all[0] > 1.0 {
            all.push(x.clone());
        }
        all[0].clone()
    }
    #[jit]
    fn retyped(x: &Tensor) -> Tensor {
        let mut state = (x.clone(), x.clone());
        while state.0 > 1.0 {
            state.1 = state.1.reshape([1, 1]);
        }
        state.1
    }
    #[jit]
    fn behind_a_block(x: &Tensor) -> Tensor {
        let mut s = 0.0;
        'block: {
            if x > 1.0 {
                s = 1.0;
                break 'block;
            }
        }
        x * s
    }
    #[jit]
    fn of_a_map(x: &Tensor) -> Tensor {
        let mut state = BTreeMap::from([("sum".to_owned(), (x.clone(), 3))]);
        if x > 1.0 {
            let (sum, _) = &state["sum"];
            let sum = sum.reshape([1, 1]);
            state.insert("sum".to_owned(), (sum, 3));
        }
        state["sum"].0.clone()
    }
    check(&[
        ("seen", seen, Code::HostChange, &["`i`", "i32"]),
        ("one_arm", one_arm, Code::HostChange, &["`s`", "f64"]),
        ("behind_a_block", behind_a_block, Code::HostChange, &["`s`", "f64"]),
        ("skipped", skipped, Code::HostChange, &["`i`"]),
        ("grows", grows, Code::HostChange, &["`all`"]),
        ("of_a_map", of_a_map, Code::TypeChange, &["`state[\"sum\"][0]`", "f32[1, 1]"]),
        ("retyped", retyped, Code::TypeChange, &["`state.1`", "f32[]", "f32[1, 1]", "control_refusals.rs"]),
    ]);
}

/// A host loop without an end of its own, which a tensor would end when the graph runs.
#[test]
fn host_loops_that_only_tensors_end() {
    #[jit]
    fn counts(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for i in 0.. {
            if x > 10.0 {
                break;
            }
            x += i;
        }
        x
    }
    #[jit]
    fn returns(x: &Tensor) -> Tensor {
        for scale in (1..).map(|it| it * it) {
            if x * scale > 100 {
                return x * scale;
            }
        }
        x.clone()
    }
    #[jit]
    fn waits(x: &Tensor) -> Tensor {
        let (mut x, mut turn) = (x.clone(), 0);
        while turn < 2 {
            turn = 1 - turn;
            x += 1.0;
            if x > 10.0 {
                break;
            }
        }
        x
    }
    check(&[
        ("counts", counts, Code::HostLoop, &["MS031", "ms::range", "control_refusals.rs"]),
        ("returns", returns, Code::HostLoop, &["control_refusals.rs"]),
        ("waits", waits, Code::HostLoop, &["control_refusals.rs"]),
    ]);
}

macro_rules! stop {
    ($label:lifetime) => {
        break $label
    };
}

macro_rules! give {
    ($value:expr) => {
        return $value
    };
}

/// A jump that stands in a macro of the user's is not seen, and leaves the graph without its end.
#[test]
fn jumps_that_macros_hide() {
    #[jit]
    fn out_of_a_loop(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        'all: while x > 1.0 {
            x = x / 2.0;
            if x < 3.0 {
                stop!('all);
            }
        }
        x
    }
    #[jit]
    fn out_of_the_function(x: &Tensor) -> Tensor {
        if x > 1.0 {
            give!(x * 2.0)
        }
        x.clone()
    }
    #[jit]
    fn out_of_a_closure(x: &Tensor) -> Tensor {
        let parse = |text: &str| -> std::result::Result<Tensor, std::num::ParseIntError> {
            if x > 1.0 {
                text.parse::<i64>()?;
            }
            Ok(x.clone())
        };
        parse("seven").unwrap_or_else(|_| x * 2.0)
    }
    check(&[
        ("out_of_a_loop", out_of_a_loop, Code::LeftOpen, &["MS033", "control_refusals.rs"]),
        ("out_of_the_function", out_of_the_function, Code::LeftOpen, &["control_refusals.rs"]),
        ("out_of_a_closure", out_of_a_closure, Code::LeftOpen, &["control_refusals.rs"]),
    ]);
}

/// An error that leaves the whole call is the result of the call.
#[test]
fn errors_of_the_host_leave_the_trace() {
    #[jit]
    fn parsed(x: &Tensor, text: &str) -> Result<Tensor> {
        let mut x = x.clone();
        while x < 10.0 {
            let step: i64 = text.parse().map_err(|_| ms::Error::new(Code::Parse, "no number"))?;
            x += step;
        }
        Ok(x)
    }
    let x = Tensor::scalar(2.0f32);
    assert_eq!(parsed(&x, "seven").expect_err("no number").code(), Code::Parse);
    assert_eq!(parsed(&x, "7").expect("a number").item::<f32>(), 16.0);
}

/// What holds a tensor where no type tells.
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

/// A place that nobody carries holds what the region that was traced last left there, whether it is
/// an outer tensor or one that was made inside, and whoever uses it after the region, in the other
/// arm, or through another region.
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

/// What regions hand on by values, variables and parameters is of what is around; a tensor of an
/// earlier trace is of none.
#[test]
fn tensors_that_regions_hand_on_are_used_after_them() {
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

/// What a name refers to is not seen from the text, and its type says that something changes through it.
#[test]
fn references_of_unwritten_types_are_handed_on() {
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
    fn behind_a_jump(x: &Tensor) -> Tensor {
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
        (
            "argument",
            argument,
            Code::HandedOn,
            &["MS034", "`w` (`&mut Tensor`)", "write `&mut *w`", "control_refusals.rs"],
        ),
        ("receiver", receiver, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("field", field, Code::HandedOn, &["`h.t` (`&mut Tensor`)", "write `&mut *h.t`"]),
        ("whole", whole, Code::HandedOn, &["`h` (`Hold", "`&mut` of what changes"]),
        ("taken_out", taken_out, Code::HandedOn, &["`o` (`Option<&mut Tensor>`)"]),
        ("matched", matched, Code::HandedOn, &["`o` (`Option<&mut Tensor>`)"]),
        ("bound_beside", bound_beside, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("in_a_loop", in_a_loop, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("behind_a_jump", behind_a_jump, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("right_side", right_side, Code::HandedOn, &["`w` (`&mut Tensor`)"]),
        ("slice", slice, Code::HandedOn, &["`part` (`&mut [Tensor]`)", "the whole variable"]),
        ("closure", closure, Code::HandedOn, &["`f`, a closure that changes `a`"]),
    ]);
}

/// What changes without `mut` is not seen from the text.
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
        ("borrowed", borrowed, Code::SharedChange, &["MS035", "`c` (`RefCell<Tensor>`)", "control_refusals.rs"]),
        ("replaced", replaced, Code::SharedChange, &["`c` (`RefCell<Tensor>`)"]),
        ("counted", counted, Code::SharedChange, &["`n` (`Cell<i32>`)"]),
        ("lent", lent, Code::SharedChange, &["`c` (`RefCell<Tensor>`)"]),
        ("given_away", given_away, Code::SharedChange, &["`d` (`Rc<RefCell<Tensor>>`)"]),
        ("argument", argument, Code::SharedChange, &["`c` (`&RefCell<Tensor>`)"]),
    ]);
}

/// What a reference leads to changes as no tensor does.
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

/// A tensor that leaves a loop of the host does not stop its head, which takes from a host value that is
/// seen behind the loop.
#[test]
fn heads_of_host_loops_advance() {
    fn three(x: &Tensor) -> Vec<Tensor> {
        vec![x * 1.0, x * 2.0, x * 3.0]
    }
    #[jit]
    fn next(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        while let Some(t) = it.next() {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn pop(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        while let Some(t) = stack.pop() {
            if t > 1.0 {
                break;
            }
        }
        x * stack.len()
    }
    #[jit]
    fn counter(x: &Tensor) -> Tensor {
        fn step(n: &mut usize) -> bool {
            *n += 1;
            *n < 3
        }
        let mut n = 0;
        while step(&mut n) {
            if x > 1.0 {
                break;
            }
        }
        x * n
    }
    #[jit]
    fn by_ref(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        for t in it.by_ref().take(2) {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn lent(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        for (_, t) in (&mut it).enumerate() {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn reference(x: &Tensor) -> Tensor {
        let mut it = three(x).into_iter();
        let r = &mut it;
        for t in r {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn closure(x: &Tensor) -> Tensor {
        let mut n = 0;
        let v = three(x);
        for t in v.iter().inspect(|_| n += 1) {
            if t > 1.0 {
                break;
            }
        }
        x * n
    }
    #[jit]
    fn called(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        let mut take = || stack.pop();
        while let Some(t) = take() {
            if t > 1.0 {
                break;
            }
        }
        x * stack.len()
    }
    #[jit]
    fn around(x: &Tensor) -> Tensor {
        let (v, mut y) = (three(x), x.clone());
        let mut it = v.iter();
        for _ in 0..2 {
            while let Some(t) = it.next() {
                if t > 1.0 {
                    break;
                }
                y += 1.0;
            }
        }
        y
    }
    #[jit]
    fn outer(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        'all: for _ in 0..2 {
            while let Some(t) = stack.pop() {
                if t > 1.0 {
                    break 'all;
                }
            }
        }
        x * stack.len()
    }
    #[jit]
    fn also_in_the_condition(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        while let Some(t) = it.next()
            && t < 1.0
        {}
        x * it.count()
    }
    check(&[
        ("next", next, Code::HostChange, &["MS041", "`it`", "head of a host loop"]),
        ("pop", pop, Code::HostChange, &["`stack`", "head of a host loop"]),
        ("counter", counter, Code::HostChange, &["`n`", "head of a host loop"]),
        ("by_ref", by_ref, Code::HostChange, &["`it`", "head of a host loop"]),
        ("lent", lent, Code::HostChange, &["`it`", "head of a host loop"]),
        ("reference", reference, Code::HostChange, &["`r`", "head of a host loop"]),
        ("closure", closure, Code::HostChange, &["`n`", "head of a host loop"]),
        ("called", called, Code::HostChange, &["`stack`", "head of a host loop"]),
        ("around", around, Code::HostChange, &["`it`", "head of a host loop"]),
        ("outer", outer, Code::HostChange, &["`stack`"]),
        ("also in the condition", also_in_the_condition, Code::HostChange, &["`it`", "head of a host loop"]),
    ]);
}
