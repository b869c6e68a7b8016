//! Writes statements, and tracks their scope.

use super::random::Random;
use super::value::{Condition, Form, Value};
use super::{DEPTH, STATEMENTS};
use std::fmt::Write as _;

/// An enclosing loop or labelled block of the current statement.
pub struct Around {
    pub label: usize,
    /// Whether it is a block. Blocks have no next iteration, and only their label leaves them.
    pub is_block: bool,
    /// Whether jumps out of it have a value.
    pub gives: bool,
}

/// Writes both forms of a program.
pub struct Writer {
    pub random: Random,
    /// The native form, and the annotated one.
    pub text: [String; 2],
    pub scope: Scope,
    pub around: Vec<Around>,
    /// Whether the program is inside a closure, which sees no network and returns a number.
    pub in_closure: bool,
    /// The number of enclosing branches on tensors.
    pub undecided: usize,
    /// Whether a tensor may have caused the statement to be skipped.
    pub skips: bool,
    /// The number of enclosing loops on tensors.
    pub loops: usize,
    /// Whether control flow on a tensor changes host-only state. The program is then right, or an error.
    pub refusable: bool,
    /// The number of statements that remain to be written.
    pub left: usize,
    indent: usize,
    fresh: usize,
}

/// The names in scope.
#[derive(Clone, Default)]
pub struct Scope {
    /// The numbers, and whether each may be assigned.
    pub numbers: Vec<(String, bool)>,
    /// Host integers.
    pub hosts: Vec<String>,
    /// Integers that are tensors.
    pub integers: Vec<String>,
    pub closures: Vec<String>,
    /// Closures that write their first argument.
    pub writers: Vec<String>,
    /// Lists of numbers, which may be written. A reference is dereferenced.
    pub lists: Vec<String>,
    pub pairs: Vec<String>,
    /// Host integers that may be written.
    pub counters: Vec<String>,
    /// Stores of a number that no name shows, with the number of enclosing loops on tensors.
    pub stores: Vec<(String, usize)>,
}

/// Returns the root variable of a place, without the dereference of a reference.
pub fn root(place: &str) -> &str {
    let place = place.trim_start_matches("total(").trim_start_matches(['&', '*']);
    place.split(['.', '[', ')']).next().unwrap_or(place)
}

/// Whether the place is behind a reference.
pub fn is_reference(place: &str) -> bool {
    place.starts_with('*')
}

impl Writer {
    /// Creates the writer of the program of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            text: Default::default(),
            scope: Scope {
                numbers: ["x", "y", "z"].map(|it| (it.to_owned(), true)).to_vec(),
                hosts: vec!["k".to_owned()],
                ..Scope::default()
            },
            around: Vec::new(),
            in_closure: false,
            undecided: 0,
            skips: false,
            loops: 0,
            refusable: false,
            left: STATEMENTS,
            indent: 1,
            fresh: 0,
        }
    }

    /// Writes the statements of the program, and its result.
    pub fn body(&mut self) {
        while self.left > 0 {
            self.statement(DEPTH);
        }
        let result = self.value(2);
        self.line(|form| format!("Ok({})", result.taken(form)));
    }

    /// Returns a number for a new name.
    pub fn fresh(&mut self) -> usize {
        self.fresh += 1;
        self.fresh
    }

    /// Writes a line in both forms.
    pub fn line(&mut self, line: impl Fn(Form) -> String) {
        for (form, text) in [Form::Native, Form::Annotated].into_iter().zip(&mut self.text) {
            let _ = writeln!(text, "{:1$}{2}", "", self.indent * 4, line(form));
        }
    }

    /// Writes a line that is equal in both forms.
    pub fn same(&mut self, line: &str) {
        self.line(|_| line.to_owned());
    }

    /// Writes the inside of a block. Its names end with it.
    pub fn inside<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        let scope = self.scope.clone();
        self.indent += 1;
        let result = write(self);
        self.indent -= 1;
        self.scope = scope;
        result
    }

    /// Declares a number that may be assigned.
    pub fn declare(&mut self, name: &str) {
        self.scope.numbers.push((name.to_owned(), true));
    }

    /// Writes statements in a branch.
    pub fn block(&mut self, on_tensor: bool, depth: usize) {
        let statements = 1 + self.random.below(3);
        self.under(on_tensor, |it| {
            it.inside(|it| (0..statements).for_each(|_| it.statement(depth)));
        });
    }

    /// Writes code that may depend on a tensor.
    pub fn under<R>(&mut self, on_tensor: bool, write: impl FnOnce(&mut Self) -> R) -> R {
        self.undecided += on_tensor as usize;
        let result = write(self);
        self.undecided -= on_tensor as usize;
        result
    }

    /// Writes a statement. Blocks in it nest `depth` deep.
    pub fn statement(&mut self, depth: usize) {
        self.left = self.left.saturating_sub(1);
        let simple = depth == 0 || self.left == 0;
        match if simple { self.random.below(9) } else { self.random.below(38) } {
            0 => self.let_number(),
            1 => self.state(),
            2..=5 => self.assign(),
            6 => self.let_tuple(),
            7 | 8 => self.write(),
            9..=12 => self.branch(depth),
            13 | 14 => self.choose(depth),
            15 | 16 => self.choice(depth),
            17..=19 => self.jump_if(),
            20 => self.let_else(),
            21 | 22 => self.while_or_loop(depth),
            23 => self.loop_with_value(depth),
            24 => self.for_host(depth),
            25 | 26 => self.for_range(depth),
            27 => self.for_rows(depth),
            28 => self.labelled(depth),
            29 => self.decided_write(),
            30..=32 => self.borrow(depth),
            33 => self.for_each_mut(depth),
            34 => self.option(depth),
            35 => self.parts(depth),
            36 if self.random.often(5) => self.store(),
            _ if self.random.often(6) => self.closure(),
            _ => self.question(),
        }
    }

    fn let_number(&mut self) {
        let (value, name) = (self.value(2), format!("v{}", self.fresh()));
        self.line(|form| format!("let mut {name} = {};", value.own(form)));
        self.declare(&name);
    }

    fn let_tuple(&mut self) {
        let (a, b, name) = (self.value(1), self.value(1), format!("t{}", self.fresh()));
        self.line(|form| format!("let mut {name} = ({}, {});", a.own(form), b.own(form)));
        self.declare(&format!("{name}.0"));
        self.declare(&format!("{name}.1"));
    }

    pub fn assign(&mut self) {
        let places: Vec<String> = self.scope.numbers.iter().filter(|it| it.1).map(|it| it.0.clone()).collect();
        if places.is_empty() {
            return self.let_number();
        }
        let (place, operator) = (self.random.one(&places).clone(), *self.random.one(&["=", "=", "+=", "-="]));
        let value = self.value(2);
        // The place is borrowed already, so neither `x += &x` nor `l[0] += &l[1]` is valid Rust.
        let itself = matches!(&value, Value::Name(other) if *other == place);
        let in_list = place.contains('[') && value.own(Form::Native).contains(root(&place));
        let operator = if in_list { "=" } else { operator };
        self.line(|form| match operator {
            "=" => format!("{place} = {};", value.own(form)),
            _ if itself => format!("{place} {operator} {};", value.own(form)),
            _ => format!("{place} {operator} {};", value.operand(form)),
        });
    }

    /// Writes a parameter, or calls the cell that has one.
    fn state(&mut self) {
        if self.in_closure {
            return self.assign();
        }
        let value = self.value(1);
        if self.random.often(5) {
            return self.line(|form| match form {
                Form::Native => format!("net.slot.set({});", value.own(form)),
                Form::Annotated => format!("net.slot.set(&({}));", value.own(form)),
            });
        }
        let name = format!("v{}", self.fresh());
        self.line(|form| match form {
            Form::Native => format!("let mut {name} = net.tally({});", value.own(form)),
            Form::Annotated => format!("let mut {name} = net.tally.call(&({}));", value.own(form)),
        });
        self.declare(&name);
    }

    /// Writes a closure that captures nothing, with jumps inside it.
    fn closure(&mut self) {
        let (name, argument) = (format!("f{}", self.fresh()), format!("a{}", self.fresh()));
        let outer = std::mem::take(&mut self.scope);
        let around = std::mem::take(&mut self.around);
        let (in_closure, skips) = (self.in_closure, self.skips);
        self.in_closure = true;
        self.line(|form| {
            let (ty, result) = (form.pick("f32", "&Tensor"), form.pick("f32", "Tensor"));
            format!("let {name} = |{argument}: {ty}| -> {result} {{\n    let mut {argument} = {argument}.clone();")
        });
        let statements = 1 + self.random.below(3);
        self.inside(|it| {
            it.declare(&argument);
            (0..statements).for_each(|_| it.statement(1));
            let value = it.value(1);
            it.line(|form| value.taken(form));
        });
        self.same("};");
        (self.scope, self.around, self.in_closure, self.skips) = (outer, around, in_closure, skips);
        self.scope.closures.push(name);
    }

    /// Writes `?` on a host result, unless a jump on a tensor precedes it.
    fn question(&mut self) {
        if self.undecided > 0 || self.skips || self.in_closure || !self.around.is_empty() {
            return self.assign();
        }
        let (host, name) = (self.host(), format!("h{}", self.fresh()));
        self.same(&format!("let {name} = below_three({host})?;"));
        self.scope.hosts.push(name);
    }

    /// Returns a host integer.
    pub fn host(&mut self) -> String {
        self.random.one(&self.scope.hosts).clone()
    }

    fn name(&mut self) -> Value {
        Value::Name(self.random.one(&self.scope.numbers).0.clone())
    }

    /// Returns a number of at most one that is exact in `f32`.
    fn number(&mut self) -> Value {
        Value::Number((self.random.below(9) as f32 - 4.0) * 0.25)
    }

    /// Returns a value of at most `depth` operations.
    pub fn value(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return self.name();
        }
        let boxed = |it: &mut Self| Box::new(it.value(depth - 1));
        match self.random.below(10) {
            0 => self.name(),
            1 => Value::Negated(boxed(self)),
            2 if !self.in_closure => Value::Mixed(boxed(self), Box::new(self.name())),
            3 => {
                let product = Value::Binary(boxed(self), '*', boxed(self));
                Value::Binary(Box::new(product), '*', Box::new(Value::Number(0.25)))
            }
            4 | 5 => {
                let operator = *self.random.one(&['+', '-', '*']);
                Value::Binary(boxed(self), operator, Box::new(self.number()))
            }
            6 if !self.scope.closures.is_empty() => {
                let closure = self.random.one(&self.scope.closures).clone();
                Value::Called(closure, boxed(self))
            }
            7 if !self.in_closure => Value::Slot,
            _ => {
                let operator = *self.random.one(&['+', '-']);
                Value::Binary(boxed(self), operator, boxed(self))
            }
        }
    }

    /// Returns a condition on host values.
    pub fn host_condition(&mut self) -> Condition {
        let Some(_) = self.scope.hosts.first() else { return Condition::Host("true".to_owned()) };
        let name = self.host();
        let text = match self.random.below(5) {
            0 if !self.in_closure => "flag".to_owned(),
            1 => format!("{name} == {}", self.random.below(3)),
            2 => format!("{name} < {}", 1 + self.random.below(3)),
            3 => format!("{name} > {}", self.random.below(2)),
            _ => format!("{name} % 2 == {}", self.random.below(2)),
        };
        // A condition of a type that the text does not show may be compiled as one on tensors.
        Condition::Host(if self.random.often(4) { format!("holds({text})") } else { text })
    }

    /// Returns a condition on tensors.
    pub fn tensor_condition(&mut self) -> Condition {
        if !self.scope.integers.is_empty() && self.random.often(3) {
            let name = self.random.one(&self.scope.integers).clone();
            let operator = *self.random.one(&["<", "==", ">", "!=", ">=", "<="]);
            return Condition::Integer(format!("{name} {operator} {}", self.random.below(3)));
        }
        let operator = *self.random.one(&["<", "<=", ">", ">=", "<", ">", "!=", "=="]);
        let left = self.value(1);
        let right = if self.random.often(5) { self.number() } else { self.name() };
        Condition::Compare(left, operator, right)
    }

    /// Returns a condition on host values, on tensors, or on both.
    pub fn condition(&mut self) -> Condition {
        let simple = |it: &mut Self| if it.random.often(4) { it.host_condition() } else { it.tensor_condition() };
        match self.random.below(8) {
            0 => Condition::Not(Box::new(simple(self))),
            1 => Condition::Both(Box::new(simple(self)), Box::new(simple(self))),
            2 => Condition::Either(Box::new(simple(self)), Box::new(simple(self))),
            _ => simple(self),
        }
    }
}
