//! Writes loops and labelled blocks.

use super::ROUNDS;
use super::value::Form;
use super::writer::{Around, Writer};

impl Writer {
    /// Writes the statements of a loop or block.
    pub fn body_of(&mut self, around: Around, on_tensor: bool, depth: usize) {
        self.around.push(around);
        self.loops += on_tensor as usize;
        self.block(on_tensor, depth - 1);
        self.loops -= on_tensor as usize;
        self.around.pop();
    }

    /// Returns the code of a loop's counter: its declaration, the condition of the loop, and its increment.
    fn counter(label: usize, on_tensor: bool, rounds: usize, form: Form) -> [String; 3] {
        if on_tensor {
            let zero = form.pick("0.0f32", "Tensor::scalar(0.0f32)");
            return [
                format!("let mut c{label} = {zero};"),
                format!("c{label} < {rounds}.0"),
                format!("c{label} += 1.0;"),
            ];
        }
        [format!("let mut c{label} = 0;"), format!("c{label} < {rounds}"), format!("c{label} += 1;")]
    }

    /// Writes a loop with a few iterations, which the host or a tensor counts. Another condition may end it.
    pub fn while_or_loop(&mut self, depth: usize) {
        let (label, on_tensor, rounds) = (self.fresh(), self.random.often(6), 1 + self.random.below(ROUNDS));
        let counter = move |form| Self::counter(label, on_tensor, rounds, form);
        let around = Around { label, is_block: false, gives: false };
        self.line(|form| counter(form)[0].clone());
        if self.random.often(7) {
            // The condition of a loop that the host counts is a host value.
            let also = self.random.often(5).then(|| if on_tensor { self.condition() } else { self.host_condition() });
            let first = self.random.often(5);
            self.line(|form| {
                let [_, goes_on, _] = counter(form);
                let condition = match &also {
                    None => goes_on,
                    Some(also) if first => format!("({}) && {goes_on}", also.text(form)),
                    Some(also) => format!("{goes_on} && ({})", also.text(form)),
                };
                format!("'l{label}: while {condition} {{")
            });
        } else {
            self.same(&format!("'l{label}: loop {{"));
            self.line(|form| format!("    if !({}) {{ break; }}", counter(form)[1]));
        }
        self.line(|form| format!("    {}", counter(form)[2]));
        self.body_of(around, on_tensor, depth);
        self.same("}");
    }

    /// Writes `let name = loop { .. break value };`.
    pub fn loop_with_value(&mut self, depth: usize) {
        let (label, on_tensor, rounds) = (self.fresh(), self.random.often(6), 1 + self.random.below(ROUNDS));
        let counter = move |form| Self::counter(label, on_tensor, rounds, form);
        let (end, name) = (self.value(1), format!("v{label}"));
        self.line(|form| counter(form)[0].clone());
        self.line(|form| format!("let mut {name}: {} = 'l{label}: loop {{", form.pick("f32", "Tensor")));
        self.line(|form| {
            let [_, goes_on, step] = counter(form);
            format!("    if !({goes_on}) {{ break {}; }}\n    {step}", end.own(form))
        });
        self.body_of(Around { label, is_block: false, gives: true }, on_tensor, depth);
        self.same("};");
        self.declare(&name);
    }

    /// Writes a loop over a host range.
    pub fn for_host(&mut self, depth: usize) {
        let (label, rounds) = (self.fresh(), 1 + self.random.below(ROUNDS));
        let bound = if !self.scope.hosts.is_empty() && self.random.often(3) { self.host() } else { rounds.to_string() };
        self.same(&format!("'l{label}: for i{label} in 0..{bound} {{"));
        self.scope.hosts.push(format!("i{label}"));
        self.body_of(Around { label, is_block: false, gives: false }, false, depth);
        self.scope.hosts.pop();
        self.same("}");
    }

    /// Writes a loop over a device range. Its bound is a number or a tensor.
    pub fn for_range(&mut self, depth: usize) {
        let (label, rounds) = (self.fresh(), 1 + self.random.below(ROUNDS));
        let (borrow, stop) = match self.random.below(3) {
            0 => ("&", self.integer()),
            1 if !self.scope.hosts.is_empty() => ("", format!("{} as i64", self.host())),
            _ => ("", rounds.to_string()),
        };
        let step = 1 + self.random.below(2);
        self.line(|form| match form {
            Form::Native => format!("'l{label}: for i{label} in (0..{stop}).step_by({step}) {{"),
            Form::Annotated => format!("'l{label}: for i{label} in ms::range(0, {borrow}{stop}).step({step}) {{"),
        });
        self.line(|form| match form {
            Form::Native => format!("    let i{label}: i64 = i{label};\n    let mut r{label} = i{label} as f32;"),
            Form::Annotated => format!("    let mut r{label} = ops::cast(&i{label}, DType::F32);"),
        });
        let scope = self.scope.clone();
        self.declare(&format!("r{label}"));
        self.scope.integers.push(format!("i{label}"));
        self.body_of(Around { label, is_block: false, gives: false }, true, depth);
        self.scope = scope;
        self.same("}");
    }

    /// Writes a loop over the elements of a tensor.
    pub fn for_rows(&mut self, depth: usize) {
        let label = self.fresh();
        let rows: Vec<_> = (0..1 + self.random.below(3)).map(|_| self.value(1)).collect();
        self.line(|form| {
            let rows: Vec<String> = rows.iter().map(|it| it.own(form)).collect();
            match form {
                Form::Native => format!("'l{label}: for r{label} in [{}] {{", rows.join(", ")),
                Form::Annotated => format!("'l{label}: for r{label} in &ops::stack(&[{}], 0) {{", rows.join(", ")),
            }
        });
        self.scope.numbers.push((format!("r{label}"), false));
        self.body_of(Around { label, is_block: false, gives: false }, false, depth);
        self.scope.numbers.pop();
        self.same("}");
    }

    /// Writes a labelled block, as a statement or as a value.
    pub fn labelled(&mut self, depth: usize) {
        let label = self.fresh();
        let gives = self.random.often(5);
        let name = format!("v{label}");
        self.line(|form| match gives {
            true => format!("let mut {name}: {} = 'l{label}: {{", form.pick("f32", "Tensor")),
            false => format!("'l{label}: {{"),
        });
        self.body_of(Around { label, is_block: true, gives }, false, depth);
        if gives {
            let value = self.value(1);
            self.line(|form| format!("    {}", value.own(form)));
            self.same("};");
            self.declare(&name);
        } else {
            self.same("}");
        }
    }
}
