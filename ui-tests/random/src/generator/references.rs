//! Writes blocks in which a reference refers to a number, a list, a pair, or a host value.

use super::value::Form;
use super::writer::{Around, Writer, root};
use super::writes::number;

/// The number of variables that are never borrowed.
const BESIDE: usize = 2;

impl Writer {
    /// Writes `{ let r = &mut y; .. }`, in one of the forms that make a name a reference.
    pub fn borrow(&mut self, depth: usize) {
        match self.random.below(5) {
            0 => return self.borrow_pair(depth),
            1 => return self.borrow_host(depth),
            2 => return self.borrow_list(depth),
            _ => {}
        }
        let Some(place) = self.lendable(&[]) else { return self.write() };
        let label = self.fresh();
        let other = self.lendable(&[&place]).filter(|_| self.random.often(3));
        let (text, names): (Box<dyn Fn(Form) -> String>, Vec<String>) = match (self.random.below(5), other.clone()) {
            (0 | 1, Some(other)) => {
                let text = format!("let (r{label}, q{label}) = (&mut {place}, &mut {other});");
                (Box::new(move |_| text.clone()), vec![format!("r{label}"), format!("q{label}")])
            }
            (_, Some(other)) => {
                let (flag, place) = (self.host_condition(), place.clone());
                let text = move |form: Form| {
                    let (flag, ty) = (flag.text(form), number(form));
                    format!("let r{label}: &mut {ty} = pick({flag}, &mut {place}, &mut {other});")
                };
                (Box::new(text), vec![format!("r{label}")])
            }
            (0, None) => (Box::new(same(format!("let h{label} = (&mut {place}, 1);"))), vec![format!("h{label}.0")]),
            (1, None) => {
                (Box::new(same(format!("let h{label} = Hold {{ t: &mut {place} }};"))), vec![format!("h{label}.t")])
            }
            (2, None) => {
                let place = place.clone();
                let text = move |form: Form| format!("let r{label}: &mut {} = &mut {place};", number(form));
                (Box::new(text), vec![format!("r{label}")])
            }
            _ => (Box::new(same(format!("let r{label} = &mut {place};"))), vec![format!("r{label}")]),
        };
        self.same("{");
        self.inside(|it| {
            it.line(text);
            it.hide(root(&place));
            other.iter().for_each(|other| it.hide(root(other)));
            names.iter().for_each(|name| it.declare(&format!("*{name}")));
            it.decided_write();
            (0..1 + it.random.below(3)).for_each(|_| it.statement(depth - 1));
        });
        self.same("}");
    }

    /// Returns a number that may be borrowed, other than these variables.
    fn lendable(&mut self, but: &[&String]) -> Option<String> {
        let of = |it: &&(String, bool)| it.1 && but.iter().all(|other| root(other) != root(&it.0));
        let places: Vec<String> = self.scope.numbers.iter().filter(of).map(|it| it.0.clone()).collect();
        let roots: std::collections::BTreeSet<&str> = places.iter().map(|it| root(it)).collect();
        (roots.len() > BESIDE).then(|| self.random.one(&places).clone())
    }

    /// Writes a block with a reference to a pair.
    fn borrow_pair(&mut self, depth: usize) {
        if self.scope.pairs.is_empty() {
            self.pair();
        }
        let (pair, label) = (self.random.one(&self.scope.pairs).clone(), self.fresh());
        self.same("{");
        self.inside(|it| {
            it.same(&format!("let p{label} = &mut {pair};"));
            it.hide(root(&pair));
            it.declare(&format!("p{label}.a"));
            it.declare(&format!("p{label}.b"));
            it.scope.pairs.push(format!("*p{label}"));
            it.decided_write();
            (0..1 + it.random.below(2)).for_each(|_| it.statement(depth - 1));
        });
        self.same("}");
    }

    /// Writes a block with a reference to a host counter.
    fn borrow_host(&mut self, depth: usize) {
        if self.scope.counters.is_empty() {
            self.counter_of_host();
        }
        let (counter, label) = (self.random.one(&self.scope.counters).clone(), self.fresh());
        self.same("{");
        self.inside(|it| {
            it.same(&format!("let c{label} = &mut {counter};"));
            it.hide(root(&counter));
            it.scope.counters.push(format!("*c{label}"));
            it.scope.hosts.push(format!("*c{label}"));
            it.decided(Self::count);
            (0..2 + it.random.below(2)).for_each(|_| it.statement(depth - 1));
        });
        self.same("}");
    }

    /// Writes a block with a reference to a list.
    fn borrow_list(&mut self, depth: usize) {
        if self.scope.lists.is_empty() {
            self.list();
        }
        let (list, label) = (self.random.one(&self.scope.lists).clone(), self.fresh());
        self.same("{");
        self.inside(|it| {
            it.same(&format!("let l{label} = &mut {list};"));
            it.hide(root(&list));
            it.scope.lists.push(format!("*l{label}"));
            it.scope.numbers.push((format!("total(&*l{label})"), false));
            it.declare(&format!("l{label}[0]"));
            it.decided(Self::change_list);
            (0..2 + it.random.below(2)).for_each(|_| it.statement(depth - 1));
        });
        self.same("}");
    }

    /// Writes `let mut p = Pair { .. };`.
    fn pair(&mut self) {
        let (a, b, label) = (self.value(1), self.value(1), self.fresh());
        self.line(|form| format!("let mut p{label} = Pair {{ a: {}, b: {} }};", a.own(form), b.own(form)));
        self.declare(&format!("p{label}.a"));
        self.declare(&format!("p{label}.b"));
        self.scope.pairs.push(format!("p{label}"));
    }

    /// Writes `let mut n = 0;`.
    fn counter_of_host(&mut self) {
        let (host, label) = (self.random.below(2), self.fresh());
        self.same(&format!("let mut n{label}: usize = {host};"));
        self.scope.counters.push(format!("n{label}"));
        self.scope.hosts.push(format!("n{label}"));
    }

    /// Writes `let mut l = vec![..];`.
    fn list(&mut self) {
        let (a, b, label) = (self.value(1), self.value(1), self.fresh());
        self.line(|form| format!("let mut l{label} = vec![{}, {}];", a.own(form), b.own(form)));
        self.scope.numbers.push((format!("total(&l{label})"), false));
        self.declare(&format!("l{label}[0]"));
        self.declare(&format!("l{label}[1]"));
        self.scope.lists.push(format!("l{label}"));
    }

    /// Writes a loop over references to the elements of a list.
    pub fn for_each_mut(&mut self, depth: usize) {
        if self.scope.lists.is_empty() {
            self.list();
        }
        let (list, label) = (self.random.one(&self.scope.lists).clone(), self.fresh());
        let scope = self.scope.clone();
        self.hide(root(&list));
        self.declare(&format!("*t{label}"));
        let place = if list.starts_with('*') { format!("({list})") } else { list.clone() };
        let head = match self.random.below(4) {
            0 => format!("'l{label}: for t{label} in &mut {list} {{"),
            1 => {
                self.scope.hosts.push(format!("i{label}"));
                format!("'l{label}: for (i{label}, t{label}) in {place}.iter_mut().enumerate() {{")
            }
            2 => format!("'l{label}: for t{label} in {place}.iter_mut().rev() {{"),
            _ => format!("'l{label}: for t{label} in {place}.iter_mut() {{"),
        };
        self.same(&head);
        self.inside(Self::decided_write);
        self.body_of(Around { label, is_block: false, gives: false }, false, depth);
        self.scope = scope;
        self.same("}");
    }

    /// Writes `if let Some(w) = &mut o`, or a `match` on it.
    pub fn option(&mut self, depth: usize) {
        let (is_there, value, label) = (self.host_condition(), self.value(1), self.fresh());
        self.line(|form| format!("let mut o{label} = ({}).then(|| {});", is_there.text(form), value.own(form)));
        let by_match = self.random.often(4);
        self.same(&match by_match {
            true => format!("match &mut o{label} {{\n    Some(w{label}) => {{"),
            false => format!("if let Some(w{label}) = &mut o{label} {{"),
        });
        self.inside(|it| {
            it.declare(&format!("*w{label}"));
            it.decided_write();
            it.statement(depth - 1);
        });
        self.same(if by_match { "} None => {" } else { "} else {" });
        self.inside(|it| it.statement(0));
        self.same(if by_match { "} }" } else { "}" });
        let (default, name) = (self.value(0), format!("v{label}"));
        self.line(|form| format!("let mut {name} = o{label}.clone().unwrap_or_else(|| {});", default.own(form)));
        self.declare(&name);
    }

    /// Writes `let [p, q] = &mut a;`.
    pub fn parts(&mut self, depth: usize) {
        let (a, b, label) = (self.value(1), self.value(1), self.fresh());
        let ([open, close], parts) = match self.random.often(5) {
            true => (["[", "]"], ["[0]", "[1]"]),
            false => (["(", ")"], [".0", ".1"]),
        };
        self.line(|form| format!("let mut a{label} = {open}{}, {}{close};", a.own(form), b.own(form)));
        self.same("{");
        self.inside(|it| {
            it.same(&format!("let {open}p{label}, q{label}{close} = &mut a{label};"));
            it.declare(&format!("*p{label}"));
            it.declare(&format!("*q{label}"));
            it.decided_write();
            it.statement(depth - 1);
        });
        self.same("}");
        parts.iter().for_each(|part| self.declare(&format!("a{label}{part}")));
    }

    /// Writes a store of a number that no name shows.
    pub fn store(&mut self) {
        let (name, label) = (self.value(0), self.fresh());
        self.line(|form| format!("let s{label} = hidden(&({}));", name.own(form)));
        self.scope.numbers.push((format!("s{label}.get()"), false));
        self.scope.stores.push((format!("s{label}"), self.loops));
        self.decided(Self::keep);
    }

    /// Hides a borrowed variable from the statements.
    fn hide(&mut self, name: &str) {
        let scope = &mut self.scope;
        scope.numbers.retain(|it| root(&it.0) != name);
        for names in [&mut scope.lists, &mut scope.pairs, &mut scope.counters, &mut scope.hosts] {
            names.retain(|it| root(it) != name);
        }
    }
}

fn same(text: String) -> impl Fn(Form) -> String {
    move |_| text.clone()
}
