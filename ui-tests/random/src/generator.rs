//! Writes random programs: blocks of assignments, decisions and loops over a few numbers.
//!
//! A program has a native form, on `f32`, and an annotated one, on tensors of one `f32`. Both have
//! the same statements in the same order, and use only operations that round to the same bits.

use std::fmt::Write as _;
use std::ops::Range;

/// How deep blocks nest.
const DEPTH: usize = 4;

/// Statements of a program, more or less.
const STATEMENTS: usize = 14;

/// Rounds of a loop at most.
const ROUNDS: usize = 4;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True `times` out of ten.
    fn often(&mut self, times: usize) -> bool {
        self.below(10) < times
    }
}

enum Value {
    Name(String),
    Number(f32),
    Binary(Box<Value>, char, Box<Value>),
    Negated(Box<Value>),
    /// A call of the cell.
    Mixed(Box<Value>, Box<Value>),
}

enum Condition {
    Compare(Value, &'static str, Value),
    /// On host values, the same in both forms.
    Host(String),
    Not(Box<Condition>),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
}

impl Condition {
    fn on_tensor(&self) -> bool {
        match self {
            Self::Compare(..) => true,
            Self::Host(_) => false,
            Self::Not(it) => it.on_tensor(),
            Self::Both(a, b) | Self::Either(a, b) => a.on_tensor() || b.on_tensor(),
        }
    }
}

enum Jump {
    Break,
    Continue,
}

enum Statement {
    Let(String, Value),
    Assign(String, &'static str, Value),
    If(Condition, Block, Option<Block>),
    /// `let name = if .. { .. value } else { .. value };`
    Choose(String, Condition, (Block, Value), (Block, Value)),
    /// At most this many rounds, counted on the host or by a tensor; another condition may end it.
    While {
        label: usize,
        on_tensor: bool,
        rounds: usize,
        also: Option<Condition>,
    },
    /// A loop that ends by `break` after this many rounds.
    Loop {
        label: usize,
        on_tensor: bool,
        rounds: usize,
    },
    /// A loop over `0..bound`.
    For {
        label: usize,
        bound: String,
    },
    /// The body of the loop before it.
    Body(Block),
    Jump(Jump, Option<usize>),
    Return(Value),
}

type Block = Vec<Statement>;

/// A loop around the statement that is written.
struct Around {
    label: usize,
    /// Whether jumps out of it or past it may be decided by tensors.
    by_tensor: bool,
    /// Whether its own rounds are decided by a tensor.
    on_tensor: bool,
}

struct Writer {
    random: Random,
    /// Names of numbers in scope; the second says whether it may be assigned.
    names: Vec<(String, bool)>,
    /// Names of host indices in scope.
    indices: Vec<String>,
    loops: Vec<Around>,
    /// Tensor decisions around the statement.
    regions: usize,
    /// Host decisions inside those.
    host_inside: usize,
    /// Blocks that give a value, out of which nothing jumps.
    values: usize,
    fresh: usize,
    left: usize,
}

impl Writer {
    fn fresh(&mut self) -> usize {
        self.fresh += 1;
        self.fresh
    }

    fn name(&mut self) -> Value {
        let at = self.random.below(self.names.len());
        Value::Name(self.names[at].0.clone())
    }

    /// A number that is exact in `f32`, at most one.
    fn number(&mut self) -> Value {
        Value::Number((self.random.below(9) as f32 - 4.0) * 0.25)
    }

    fn value(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return self.name();
        }
        match self.random.below(8) {
            0 => self.name(),
            1 => Value::Negated(Box::new(self.value(depth - 1))),
            2 => Value::Mixed(Box::new(self.value(depth - 1)), Box::new(self.name())),
            3 => {
                let product = Value::Binary(Box::new(self.value(depth - 1)), '*', Box::new(self.value(depth - 1)));
                Value::Binary(Box::new(product), '*', Box::new(Value::Number(0.25)))
            }
            4 | 5 => {
                let operator = ['+', '-', '*'][self.random.below(3)];
                Value::Binary(Box::new(self.value(depth - 1)), operator, Box::new(self.number()))
            }
            _ => {
                let operator = ['+', '-'][self.random.below(2)];
                Value::Binary(Box::new(self.value(depth - 1)), operator, Box::new(self.value(depth - 1)))
            }
        }
    }

    fn host_condition(&mut self) -> Condition {
        let name = match self.random.below(self.indices.len() + 1) {
            0 => "k".to_owned(),
            at => self.indices[at - 1].clone(),
        };
        Condition::Host(match self.random.below(5) {
            0 => "flag".to_owned(),
            1 => format!("{name} == {}", self.random.below(3)),
            2 => format!("{name} < {}", 1 + self.random.below(3)),
            3 => format!("{name} > {}", self.random.below(2)),
            _ => format!("{name} % 2 == {}", self.random.below(2)),
        })
    }

    fn tensor_condition(&mut self) -> Condition {
        let operator = ["<", "<=", ">", ">=", "<", ">", "!=", "=="][self.random.below(8)];
        let left = self.value(1);
        let right = if self.random.often(5) { self.number() } else { self.name() };
        Condition::Compare(left, operator, right)
    }

    /// A condition on host values, on tensors, or on both.
    fn condition(&mut self) -> Condition {
        let simple = |it: &mut Self| if it.random.often(4) { it.host_condition() } else { it.tensor_condition() };
        match self.random.below(8) {
            0 => Condition::Not(Box::new(simple(self))),
            1 => Condition::Both(Box::new(simple(self)), Box::new(simple(self))),
            2 => Condition::Either(Box::new(simple(self)), Box::new(simple(self))),
            _ => simple(self),
        }
    }

    fn block(&mut self, depth: usize, statements: usize) -> Block {
        let (names, indices) = (self.names.len(), self.indices.len());
        let mut block = Block::new();
        for _ in 0..statements {
            self.statement(depth, &mut block);
        }
        self.names.truncate(names);
        self.indices.truncate(indices);
        block
    }

    /// A block under a condition.
    fn branch(&mut self, on_tensor: bool, depth: usize) -> Block {
        let statements = 1 + self.random.below(3);
        self.under(on_tensor, |it| it.block(depth, statements))
    }

    fn under<R>(&mut self, on_tensor: bool, f: impl FnOnce(&mut Self) -> R) -> R {
        let (regions, host_inside) = (self.regions, self.host_inside);
        if on_tensor {
            self.regions += 1;
        } else if self.regions > 0 {
            self.host_inside += 1;
        }
        let result = f(self);
        (self.regions, self.host_inside) = (regions, host_inside);
        result
    }

    fn statement(&mut self, depth: usize, block: &mut Block) {
        self.left = self.left.saturating_sub(1);
        let simple = depth == 0 || self.left == 0;
        match if simple { self.random.below(4) } else { self.random.below(14) } {
            0 => {
                let value = self.value(2);
                let name = format!("v{}", self.fresh());
                self.names.push((name.clone(), true));
                block.push(Statement::Let(name, value));
            }
            1..=3 => {
                let places: Vec<String> = self.names.iter().filter(|it| it.1).map(|it| it.0.clone()).collect();
                let place = places[self.random.below(places.len())].clone();
                let operator = ["=", "=", "+=", "-="][self.random.below(4)];
                block.push(Statement::Assign(place, operator, self.value(2)));
            }
            4..=6 => {
                let condition = self.condition();
                let on_tensor = condition.on_tensor();
                let then = self.branch(on_tensor, depth - 1);
                let other = self.random.often(6).then(|| self.branch(on_tensor, depth - 1));
                block.push(Statement::If(condition, then, other));
            }
            7 => self.choose(depth, block),
            8 | 9 => self.jump(block),
            10 | 11 => self.while_or_loop(depth, block),
            _ => {
                let label = self.fresh();
                let bound =
                    if self.random.often(3) { "k".to_owned() } else { (1 + self.random.below(ROUNDS)).to_string() };
                block.push(Statement::For { label, bound });
                self.indices.push(format!("i{label}"));
                let body = self.body(Around { label, by_tensor: true, on_tensor: false }, depth);
                self.indices.pop();
                block.push(Statement::Body(body));
            }
        }
    }

    fn choose(&mut self, depth: usize, block: &mut Block) {
        let condition = self.condition();
        let on_tensor = condition.on_tensor();
        self.values += 1;
        let arm = |it: &mut Self| {
            it.under(on_tensor, |it| {
                let names = it.names.len();
                let mut arm = Block::new();
                if it.random.often(5) {
                    it.statement(depth - 1, &mut arm);
                }
                let value = it.value(2);
                it.names.truncate(names);
                (arm, value)
            })
        };
        let arms = (arm(self), arm(self));
        self.values -= 1;
        let name = format!("v{}", self.fresh());
        self.names.push((name.clone(), true));
        block.push(Statement::Choose(name, condition, arms.0, arms.1));
    }

    /// `if condition { break }` and its like, where the condition may decide on it.
    fn jump(&mut self, block: &mut Block) {
        let decided = self.regions > 0 || self.loops.iter().any(|it| it.on_tensor);
        if self.values > 0 || self.host_inside > 0 {
            return;
        }
        let mut condition = if decided { self.tensor_condition() } else { self.condition() };
        if !self.loops.iter().all(|it| it.by_tensor) {
            if decided {
                return;
            }
            condition = self.host_condition();
        }
        let jump = match self.loops.len() {
            0 => Statement::Return(self.value(1)),
            _ if self.random.often(2) => Statement::Return(self.value(1)),
            loops => {
                let kind = if self.random.often(5) { Jump::Break } else { Jump::Continue };
                // Of the innermost loop, or of any by its label.
                let target = self.random.often(4).then(|| self.loops[self.random.0 as usize % loops].label);
                Statement::Jump(kind, target)
            }
        };
        let mut then = Block::new();
        if self.random.often(5) {
            let names = self.names.len();
            let on_tensor = condition.on_tensor();
            self.under(on_tensor, |it| it.statement(0, &mut then));
            self.names.truncate(names);
        }
        then.push(jump);
        block.push(Statement::If(condition, then, None));
    }

    fn while_or_loop(&mut self, depth: usize, block: &mut Block) {
        let (label, on_tensor) = (self.fresh(), self.random.often(6));
        let rounds = 1 + self.random.below(ROUNDS);
        let around = Around { label, by_tensor: on_tensor, on_tensor };
        if self.random.often(7) {
            // A loop that counts on the host is decided on the host.
            let also = self.random.often(5).then(|| if on_tensor { self.condition() } else { self.host_condition() });
            block.push(Statement::While { label, on_tensor, rounds, also });
        } else {
            block.push(Statement::Loop { label, on_tensor, rounds });
        }
        let body = self.under(on_tensor, |it| it.body(around, depth));
        block.push(Statement::Body(body));
    }

    fn body(&mut self, around: Around, depth: usize) -> Block {
        self.loops.push(around);
        let statements = 1 + self.random.below(3);
        let body = self.block(depth - 1, statements);
        self.loops.pop();
        body
    }
}

/// The form in which a program is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Native,
    Annotated,
}

impl Value {
    /// As an operand: a name is borrowed where it is a tensor.
    fn operand(&self, form: Form) -> String {
        match self {
            Self::Name(name) if form == Form::Annotated => format!("&{name}"),
            Self::Name(name) => name.clone(),
            Self::Number(number) => format!("{number:?}"),
            _ => format!("({})", self.own(form)),
        }
    }

    /// As a value of its own.
    fn own(&self, form: Form) -> String {
        match self {
            Self::Name(name) if form == Form::Annotated => format!("{name}.clone()"),
            Self::Name(_) | Self::Number(_) => self.operand(form),
            Self::Binary(a, operator, b) => format!("{} {operator} {}", a.operand(form), b.operand(form)),
            Self::Negated(it) => format!("-{}", it.operand(form)),
            Self::Mixed(a, b) if form == Form::Annotated => {
                format!("cell.call(&({}), &({}))", a.own(form), b.own(form))
            }
            Self::Mixed(a, b) => format!("mix({}, {})", a.own(form), b.own(form)),
        }
    }

    /// As a side of a comparison, which borrows by itself.
    fn side(&self, form: Form) -> String {
        match self {
            Self::Name(name) => name.clone(),
            _ => self.operand(form),
        }
    }
}

impl Condition {
    fn text(&self, form: Form) -> String {
        match self {
            Self::Compare(a, operator, b) => format!("{} {operator} {}", a.side(form), b.side(form)),
            Self::Host(text) => text.clone(),
            Self::Not(it) => format!("!({})", it.text(form)),
            Self::Both(a, b) => format!("({}) && ({})", a.text(form), b.text(form)),
            Self::Either(a, b) => format!("({}) || ({})", a.text(form), b.text(form)),
        }
    }
}

struct Printer {
    form: Form,
    text: String,
    depth: usize,
}

impl Printer {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", self.depth * 4);
    }

    fn block(&mut self, block: &[Statement]) {
        self.depth += 1;
        block.iter().for_each(|it| self.statement(it));
        self.depth -= 1;
    }

    /// A counter of a loop: its declaration, the condition that it goes on, and its step.
    fn counter(&self, label: usize, on_tensor: bool, rounds: usize) -> (String, String, String) {
        match (on_tensor, self.form) {
            (false, _) => (format!("let mut c{label} = 0;"), format!("c{label} < {rounds}"), format!("c{label} += 1;")),
            (true, Form::Native) => {
                (format!("let mut c{label} = 0.0f32;"), format!("c{label} < {rounds}.0"), format!("c{label} += 1.0;"))
            }
            (true, Form::Annotated) => (
                format!("let mut c{label} = Tensor::scalar(0.0f32);"),
                format!("c{label} < {rounds}.0"),
                format!("c{label} += 1.0;"),
            ),
        }
    }

    fn statement(&mut self, statement: &Statement) {
        let form = self.form;
        match statement {
            Statement::Let(name, value) => self.line(&format!("let mut {name} = {};", value.own(form))),
            Statement::Assign(name, "=", value) => self.line(&format!("{name} = {};", value.own(form))),
            Statement::Assign(name, operator, value) => {
                // `x += &x` is no Rust: the place is borrowed already.
                let itself = matches!(value, Value::Name(other) if other == name);
                let operand = if itself { value.own(form) } else { value.operand(form) };
                self.line(&format!("{name} {operator} {operand};"));
            }
            Statement::If(condition, then, other) => {
                self.line(&format!("if {} {{", condition.text(form)));
                self.block(then);
                if let Some(other) = other {
                    self.line("} else {");
                    self.block(other);
                }
                self.line("}");
            }
            Statement::Choose(name, condition, (then, a), (other, b)) => {
                self.line(&format!("let mut {name} = if {} {{", condition.text(form)));
                self.block(then);
                self.line(&format!("    {}", a.own(form)));
                self.line("} else {");
                self.block(other);
                self.line(&format!("    {}", b.own(form)));
                self.line("};");
            }
            Statement::While { label, on_tensor, rounds, also } => {
                let (declare, goes_on, step) = self.counter(*label, *on_tensor, *rounds);
                let also = also.as_ref().map_or_else(String::new, |it| format!(" && ({})", it.text(form)));
                self.line(&declare);
                self.line(&format!("'l{label}: while {goes_on}{also} {{"));
                self.line(&format!("    {step}"));
            }
            Statement::Loop { label, on_tensor, rounds } => {
                let (declare, goes_on, step) = self.counter(*label, *on_tensor, *rounds);
                self.line(&declare);
                self.line(&format!("'l{label}: loop {{"));
                self.line(&format!("    if !({goes_on}) {{ break; }}"));
                self.line(&format!("    {step}"));
            }
            Statement::For { label, bound } => self.line(&format!("'l{label}: for i{label} in 0..{bound} {{")),
            Statement::Body(body) => {
                self.block(body);
                self.line("}");
            }
            Statement::Jump(jump, label) => {
                let word = if matches!(jump, Jump::Break) { "break" } else { "continue" };
                let label = label.map_or_else(String::new, |it| format!(" 'l{it}"));
                self.line(&format!("{word}{label};"));
            }
            Statement::Return(value) => self.line(&format!("return {};", value.own(form))),
        }
    }
}

/// The program of a seed, in both forms.
pub fn program(seed: u64) -> String {
    let names = ["x", "y", "z"].map(|it| (it.to_owned(), true)).to_vec();
    let mut writer = Writer {
        random: Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
        names,
        indices: Vec::new(),
        loops: Vec::new(),
        regions: 0,
        host_inside: 0,
        values: 0,
        fresh: 0,
        left: STATEMENTS,
    };
    let mut block = Block::new();
    while writer.left > 0 {
        writer.statement(DEPTH, &mut block);
    }
    let result = writer.value(2);
    let mut text = String::new();
    for form in [Form::Native, Form::Annotated] {
        let mut printer = Printer { form, text: String::new(), depth: 0 };
        printer.block(&block);
        let (head, state) = match form {
            Form::Native => (
                format!("fn native_{seed}(x: f32, y: f32, k: usize, flag: bool) -> f32"),
                "let (mut x, mut y, mut z) = (x, y, x - y);",
            ),
            Form::Annotated => (
                format!(
                    "#[jit]\nfn annotated_{seed}(cell: &Mix, x: &Tensor, y: &Tensor, k: usize, flag: bool) -> Tensor"
                ),
                "let (mut x, mut y, mut z) = (x.clone(), y.clone(), x - y);",
            ),
        };
        let _ = write!(text, "{head} {{\n    {state}\n{}    {}\n}}\n\n", printer.text, result.own(form));
    }
    text
}

/// A file of programs, with a table of them.
pub fn file(seeds: Range<u64>) -> String {
    let mut text = String::new();
    seeds.clone().for_each(|seed| text.push_str(&program(seed)));
    let _ = writeln!(text, "/// Every program: its seed, and both forms.\nconst PROGRAMS: &[Program] = &[");
    for seed in seeds {
        let _ = writeln!(text, "    Program {{ seed: {seed}, native: native_{seed}, annotated: annotated_{seed} }},");
    }
    text.push_str("];\n");
    text
}
