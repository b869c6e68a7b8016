//! Writes assignments by helpers: `put(&mut y, &z)`, `swap(r, &mut z)`, `pair.flip()`, `y.clone_from(&z)`.

use super::value::{Condition, Form};
use super::writer::{Writer, is_reference, root};

impl Writer {
    /// Writes by a helper, or to something that only helpers write.
    pub fn write(&mut self) {
        match self.random.below(12) {
            0 if !self.scope.lists.is_empty() => self.change_list(),
            1 if !self.scope.counters.is_empty() => self.count(),
            2 if !self.scope.stores.is_empty() => self.keep(),
            3 => self.replace(),
            4 => self.writer(),
            _ => match self.handed_on() {
                Some(text) => self.same(&format!("{text};")),
                None => self.assign(),
            },
        }
    }

    /// Returns a write by a helper as an expression without a value, equal in both forms.
    pub fn handed_on(&mut self) -> Option<String> {
        if !self.scope.pairs.is_empty() && self.random.often(2) {
            let pair = self.random.one(&self.scope.pairs).clone();
            return Some(match self.random.often(5) {
                true => format!("{}.flip()", receiver(&pair)),
                false => format!("flip({})", self.lent(&pair)),
            });
        }
        let (place, source) = self.place_and_source()?;
        let (to, from) = (self.lent(&place), format!("&{source}"));
        Some(match self.random.below(9) {
            0 => format!("add_to({to}, {from})"),
            1 if !self.in_closure => format!("net.step({to}, {from})"),
            2 => format!("{}.clone_from({from})", receiver(&place)),
            3 | 4 if self.may_assign(&source) => format!("std::mem::swap({to}, {})", self.lent(&source)),
            5 => format!("apply(|| put({to}, {from}))"),
            6 if !self.scope.writers.is_empty() => {
                let writer = self.random.one(&self.scope.writers).clone();
                format!("{writer}({to}, {from})")
            }
            _ => format!("put({to}, {from})"),
        })
    }

    /// Returns a place that may be written, and a number that is not a part of its variable.
    fn place_and_source(&mut self) -> Option<(String, String)> {
        let places: Vec<String> = self.scope.numbers.iter().filter(|it| it.1).map(|it| it.0.clone()).collect();
        let place = self.random.one(places.get(..).filter(|it| !it.is_empty())?).clone();
        let names = self.scope.numbers.iter().map(|it| &it.0);
        let others: Vec<String> = names.filter(|it| root(it) != root(&place)).cloned().collect();
        let source = self.random.one(others.get(..).filter(|it| !it.is_empty())?).clone();
        Some((place, source))
    }

    fn may_assign(&self, name: &str) -> bool {
        self.scope.numbers.iter().any(|it| it.1 && it.0 == name)
    }

    /// Returns a place as a `&mut` argument. Usually a reference is passed by its name.
    pub fn lent(&mut self, place: &str) -> String {
        match place.strip_prefix('*') {
            Some(reference) if self.random.often(8) => reference.to_owned(),
            _ => format!("&mut {place}"),
        }
    }

    /// Writes `let old = std::mem::replace(&mut y, z.clone());`.
    fn replace(&mut self) {
        let Some((place, source)) = self.place_and_source() else { return self.assign() };
        let (to, name) = (self.lent(&place), format!("v{}", self.fresh()));
        self.same(&format!("let mut {name} = std::mem::replace({to}, ({source}).clone());"));
        self.declare(&name);
    }

    /// Writes a closure that writes its argument in a branch.
    fn writer(&mut self) {
        let name = format!("f{}", self.fresh());
        let outer = std::mem::take(&mut self.scope);
        let in_closure = std::mem::replace(&mut self.in_closure, true);
        self.line(|form| {
            let ty = number(form);
            format!("let {name} = |to: &mut {ty}, from: &{ty}| {{")
        });
        self.inside(|it| {
            it.scope.numbers = vec![("*to".to_owned(), true), ("*from".to_owned(), false)];
            it.decided_write();
        });
        self.same("};");
        (self.scope, self.in_closure) = (outer, in_closure);
        self.scope.writers.push(name);
    }

    /// Writes a branch with arms that only write.
    pub fn decided_write(&mut self) {
        self.decided(Self::handed_on_or_assigned);
    }

    /// Writes a branch with arms that `write` fills.
    pub fn decided(&mut self, write: fn(&mut Self)) {
        let condition = self.deciding();
        let on_tensor = condition.on_tensor();
        let way = |it: &mut Self| it.under(on_tensor, |it| it.inside(write));
        self.line(|form| format!("if {} {{", condition.text(form)));
        way(self);
        if self.random.often(4) {
            self.same("} else {");
            way(self);
        }
        self.same("}");
    }

    fn handed_on_or_assigned(&mut self) {
        match self.handed_on() {
            Some(text) => self.same(&format!("{text};")),
            None => self.assign(),
        }
    }

    /// Returns a condition that may write. It is not for loops.
    pub fn deciding(&mut self) -> Condition {
        let condition = self.condition();
        if !self.random.often(3) {
            return condition;
        }
        let Some(write) = self.handed_on() else { return condition };
        let operator = if self.random.often(5) { "&&" } else { "||" };
        let then = self.condition();
        Condition::Writes(Box::new(condition), operator, write, Box::new(then))
    }

    /// Whether host values may change here, since the statement does not depend on a tensor.
    fn host_decides(&self) -> bool {
        self.undecided == 0 && !self.skips && self.around.is_empty()
    }

    /// Whether to change host-only state here. Where it must not change, the program may be an error.
    fn changes_host(&mut self) -> bool {
        let changes = self.host_decides() || self.random.often(2);
        self.refusable |= changes && !self.host_decides();
        changes
    }

    /// Writes a call of a helper that reverses or extends a list.
    pub fn change_list(&mut self) {
        let list = self.random.one(&self.scope.lists).clone();
        let to = self.lent(&list);
        match self.random.below(4) {
            0 if self.changes_host() => {
                let Some((_, source)) = self.place_and_source() else { return self.assign() };
                // Rust borrows the list before it evaluates the arguments.
                match source.contains(receiver(&list)) {
                    true => self.same(&format!("{{ let last = ({source}).clone(); grow({to}, last); }}")),
                    false => self.same(&format!("grow({to}, ({source}).clone());")),
                }
            }
            1 => self.same(&format!("{}.swap(0, 1);", receiver(&list))),
            _ => self.same(&format!("rotate({to});")),
        }
    }

    /// Writes a change of a host counter, by a helper or directly.
    pub fn count(&mut self) {
        if !self.changes_host() {
            return self.assign();
        }
        let counter = self.random.one(&self.scope.counters).clone();
        let to = self.lent(&counter);
        let text = if self.random.often(7) { format!("count({to});") } else { format!("{counter} += 1;") };
        self.same(&text);
    }

    /// Stores a tensor where no name shows it. This is an error inside control flow on a tensor.
    pub fn keep(&mut self) {
        let (store, loops) = self.random.one(&self.scope.stores).clone();
        // Values that an earlier iteration of a traced loop stored there are not detected.
        if loops != self.loops || !self.changes_host() {
            return self.assign();
        }
        let Some((_, source)) = self.place_and_source() else { return self.assign() };
        self.same(&format!("{store}.keep(&{source});"));
    }
}

/// Returns the type of a number.
pub fn number(form: Form) -> &'static str {
    form.pick("f32", "Tensor")
}

/// Returns a place as the receiver of a method.
fn receiver(place: &str) -> &str {
    if is_reference(place) { &place[1..] } else { place }
}
