//! Writes `if`, `match`, and the jumps in them.

use super::value::{Condition, Form};
use super::writer::Writer;

impl Writer {
    /// Writes an `if`, with further arms or without.
    pub fn branch(&mut self, depth: usize) {
        let condition = self.deciding();
        let on_tensor = condition.on_tensor();
        self.line(|form| format!("if {} {{", condition.text(form)));
        self.arm(on_tensor, depth - 1);
        if self.random.often(2) {
            let other = self.deciding();
            let on_tensor = on_tensor || other.on_tensor();
            self.line(|form| format!("}} else if {} {{", other.text(form)));
            self.arm(on_tensor, depth - 1);
        }
        if self.random.often(6) {
            self.same("} else {");
            self.arm(on_tensor, depth - 1);
        }
        self.same("}");
    }

    /// Writes statements, which may end with a jump.
    fn arm(&mut self, on_tensor: bool, depth: usize) {
        self.block(on_tensor, depth);
        if self.random.often(1) {
            self.under(on_tensor, |it| it.inside(Self::jump));
        }
    }

    /// Writes statements and a value, or a jump instead.
    fn valued_arm(&mut self, on_tensor: bool, depth: usize) {
        self.under(on_tensor, |it| {
            it.inside(|it| {
                if it.random.often(5) {
                    it.statement(depth);
                }
                if it.random.often(2) {
                    return it.jump();
                }
                let value = it.value(2);
                it.line(|form| value.own(form));
            });
        });
    }

    /// Writes `let name = if .. { .. } else { .. };`.
    pub fn choose(&mut self, depth: usize) {
        let (condition, name) = (self.deciding(), format!("v{}", self.fresh()));
        let on_tensor = condition.on_tensor();
        let ty = |form: Form| form.pick("f32", "Tensor").to_owned();
        self.line(|form| format!("let mut {name}: {} = if {} {{", ty(form), condition.text(form)));
        self.valued_arm(on_tensor, depth - 1);
        self.same("} else {");
        self.valued_arm(on_tensor, depth - 1);
        self.same("};");
        self.declare(&name);
    }

    /// Returns an integer that is a tensor.
    pub fn integer(&mut self) -> String {
        if !self.scope.integers.is_empty() && self.random.often(5) {
            return self.random.one(&self.scope.integers).clone();
        }
        let (condition, name) = (self.tensor_condition(), format!("n{}", self.fresh()));
        let (one, other) = (self.random.below(3), 1 + self.random.below(3));
        self.line(|form| {
            let number = |it: usize| match form {
                Form::Native => format!("{it}i64"),
                Form::Annotated => format!("Tensor::scalar({it}i64)"),
            };
            format!("let {name} = if {} {{ {} }} else {{ {} }};", condition.text(form), number(one), number(other))
        });
        self.scope.integers.push(name.clone());
        name
    }

    /// Writes a `match` on literals, as a statement or as a value.
    pub fn choice(&mut self, depth: usize) {
        let on_tensor = self.scope.hosts.is_empty() || self.random.often(7);
        let scrutinee = match self.random.below(4) {
            0 => {
                let condition = if on_tensor { self.tensor_condition() } else { self.host_condition() };
                return self.choice_of_bools(&condition, depth);
            }
            _ if on_tensor => self.integer(),
            _ => format!("{} % 4", self.host()),
        };
        let name = self.random.often(4).then(|| format!("v{}", self.fresh()));
        if self.random.often(3) {
            return self.choice_of_two(name, &scrutinee, on_tensor, depth);
        }
        self.begin_choice(name.as_deref(), &|_| scrutinee.clone());
        let patterns: &[&str] = match self.random.below(4) {
            0 => &["0", "1 | 2"],
            1 => &["1", "0", "3"],
            2 => &["1..=2", "3.."],
            _ => &["..1", "n @ (1 | 3) if n < 3"],
        };
        for pattern in patterns {
            self.case(name.is_some(), pattern, on_tensor, depth);
        }
        if self.random.often(3) {
            let guard = self.condition();
            let on_tensor = on_tensor || guard.on_tensor();
            self.guarded_case(name.is_some(), "_", &guard, on_tensor, depth);
        }
        self.case(name.is_some(), "_", on_tensor, depth);
        self.end_choice(name);
    }

    /// Writes a `match` on two values at once.
    fn choice_of_two(&mut self, name: Option<String>, one: &str, on_tensor: bool, depth: usize) {
        let other = if on_tensor { self.integer() } else { format!("{} % 3", self.host()) };
        self.begin_choice(name.as_deref(), &|_| format!("({one}, {other})"));
        for pattern in ["(0, 1..)", "(_, 0 | 2)"] {
            self.case(name.is_some(), pattern, on_tensor, depth);
        }
        self.case(name.is_some(), "(_, _)", on_tensor, depth);
        self.end_choice(name);
    }

    fn choice_of_bools(&mut self, condition: &Condition, depth: usize) {
        let name = self.random.often(4).then(|| format!("v{}", self.fresh()));
        self.begin_choice(name.as_deref(), &|form| condition.text(form));
        for pattern in ["true", "false"] {
            self.case(name.is_some(), pattern, condition.on_tensor(), depth);
        }
        self.end_choice(name);
    }

    fn begin_choice(&mut self, name: Option<&str>, scrutinee: &dyn Fn(Form) -> String) {
        self.line(|form| match name {
            Some(name) => {
                format!("let mut {name}: {} = match {} {{", form.pick("f32", "Tensor"), scrutinee(form))
            }
            None => format!("match {} {{", scrutinee(form)),
        });
    }

    fn case(&mut self, valued: bool, pattern: &str, on_tensor: bool, depth: usize) {
        self.inside(|it| {
            it.same(&format!("{pattern} => {{"));
            if valued {
                it.valued_arm(on_tensor, depth - 1)
            } else {
                it.arm(on_tensor, depth - 1)
            }
            it.same("}");
        });
    }

    fn guarded_case(&mut self, valued: bool, pattern: &str, guard: &Condition, on_tensor: bool, depth: usize) {
        self.inside(|it| {
            it.line(|form| format!("{pattern} if {} => {{", guard.text(form)));
            if valued {
                it.valued_arm(on_tensor, depth - 1)
            } else {
                it.arm(on_tensor, depth - 1)
            }
            it.same("}");
        });
    }

    fn end_choice(&mut self, name: Option<String>) {
        self.same(if name.is_some() { "};" } else { "}" });
        if let Some(name) = name {
            self.declare(&name);
        }
    }

    /// Writes `if condition { .. break }` and similar statements.
    pub fn jump_if(&mut self) {
        let condition = self.deciding();
        let on_tensor = condition.on_tensor();
        self.line(|form| format!("if {} {{", condition.text(form)));
        self.under(on_tensor, |it| {
            it.inside(|it| {
                if it.random.often(5) {
                    it.statement(0);
                }
                it.jump();
            });
        });
        self.same("}");
    }

    /// Writes `let Some(name) = .. else { .. };`.
    pub fn let_else(&mut self) {
        if self.scope.hosts.is_empty() {
            return self.jump_if();
        }
        let (host, name) = (self.host(), format!("h{}", self.fresh()));
        self.same(&format!("let Some({name}) = half({host}) else {{"));
        self.inside(Self::jump);
        self.same("};");
        self.scope.hosts.push(name);
    }

    /// Writes a jump out of the enclosing construct.
    fn jump(&mut self) {
        self.skips |= self.undecided > 0;
        let returns = self.around.is_empty() || self.random.often(2);
        if returns {
            let (value, in_closure) = (self.value(1), self.in_closure);
            return self.line(|form| match in_closure {
                true => format!("return {};", value.taken(form)),
                false => format!("return Ok({});", value.taken(form)),
            });
        }
        let innermost = self.around.len() - 1;
        let at = if self.random.often(5) { innermost } else { self.random.below(self.around.len()) };
        let target = &self.around[at];
        let (label, gives) = (target.label, target.gives);
        let continues = !target.is_block && self.random.often(4);
        let bare = at == innermost && !target.is_block && self.random.often(6);
        let label = if bare { String::new() } else { format!(" 'l{label}") };
        if continues {
            return self.same(&format!("continue{label};"));
        }
        if !gives {
            return self.same(&format!("break{label};"));
        }
        let value = self.value(1);
        self.line(|form| format!("break{label} {};", value.own(form)));
    }
}
