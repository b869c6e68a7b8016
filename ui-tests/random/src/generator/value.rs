//! Represents numbers and conditions, and writes them in both forms.

use super::writer::is_reference;

/// The form in which a program is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The program computes on `f32`.
    Native,
    /// The program computes on tensors of one `f32`.
    Annotated,
}

impl Form {
    /// Returns the text of this form.
    pub fn pick<'a>(self, native: &'a str, annotated: &'a str) -> &'a str {
        match self {
            Self::Native => native,
            Self::Annotated => annotated,
        }
    }
}

/// Whether the place can be moved out of: it is not an element of a list, nor behind a reference.
fn is_owned(place: &str) -> bool {
    place.chars().all(|it| it.is_ascii_alphanumeric())
}

/// A number.
pub enum Value {
    /// A variable, or a field of one.
    Name(String),
    Number(f32),
    Binary(Box<Value>, char, Box<Value>),
    Negated(Box<Value>),
    /// The result of the stateless cell on two numbers.
    Mixed(Box<Value>, Box<Value>),
    /// The result of a closure on a number.
    Called(String, Box<Value>),
    /// The value of the network's parameter.
    Slot,
}

impl Value {
    /// Returns the value as an operand. A name is borrowed where it is a tensor.
    pub fn operand(&self, form: Form) -> String {
        match self {
            Self::Name(name) => format!("{}{name}", form.pick("", "&")),
            Self::Number(number) => format!("{number:?}"),
            Self::Slot => form.pick("net.slot.get()", "&net.slot").to_owned(),
            _ => format!("({})", self.own(form)),
        }
    }

    /// Returns the value as an owned value.
    pub fn own(&self, form: Form) -> String {
        match self {
            Self::Name(name) if is_reference(name) => format!("({name}){}", form.pick("", ".clone()")),
            Self::Name(name) => format!("{name}{}", form.pick("", ".clone()")),
            Self::Number(_) => self.operand(form),
            Self::Slot => form.pick("net.slot.get()", "net.slot.value()").to_owned(),
            Self::Binary(a, operator, b) => format!("{} {operator} {}", a.operand(form), b.operand(form)),
            Self::Negated(it) => format!("-{}", it.operand(form)),
            Self::Mixed(a, b) if form == Form::Annotated => {
                format!("net.mix.call(&({}), &({}))", a.own(form), b.own(form))
            }
            Self::Mixed(a, b) => format!("mix({}, {})", a.own(form), b.own(form)),
            Self::Called(name, it) => format!("{name}({}({}))", form.pick("", "&"), it.own(form)),
        }
    }

    /// Returns the value as one that moves a name for its last use.
    pub fn taken(&self, form: Form) -> String {
        match self {
            Self::Name(name) if is_owned(name) => name.clone(),
            Self::Negated(it) => match &**it {
                Self::Name(name) if is_owned(name) => format!("-{name}"),
                _ => self.own(form),
            },
            _ => self.own(form),
        }
    }

    /// Returns the value as an operand of a comparison, which borrows its operands implicitly.
    pub fn side(&self, form: Form) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Slot => form.pick("net.slot.get()", "net.slot").to_owned(),
            _ => self.operand(form),
        }
    }
}

/// A condition.
pub enum Condition {
    Compare(Value, &'static str, Value),
    /// A condition on integers that are tensors, written equally in both forms.
    Integer(String),
    /// A condition on host values, written equally in both forms.
    Host(String),
    Not(Box<Condition>),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
    /// `&&` or `||` with a right operand that writes before it is evaluated.
    Writes(Box<Condition>, &'static str, String, Box<Condition>),
}

impl Condition {
    /// Whether the condition is a tensor.
    pub fn on_tensor(&self) -> bool {
        match self {
            Self::Compare(..) | Self::Integer(_) => true,
            Self::Host(_) => false,
            Self::Not(it) => it.on_tensor(),
            Self::Both(a, b) | Self::Either(a, b) | Self::Writes(a, _, _, b) => a.on_tensor() || b.on_tensor(),
        }
    }

    /// Returns the source text of the condition.
    pub fn text(&self, form: Form) -> String {
        match self {
            Self::Compare(a, operator, b) => format!("{} {operator} {}", a.side(form), b.side(form)),
            Self::Integer(text) | Self::Host(text) => text.clone(),
            Self::Not(it) => format!("!({})", it.text(form)),
            Self::Both(a, b) => format!("({}) && ({})", a.text(form), b.text(form)),
            Self::Either(a, b) => format!("({}) || ({})", a.text(form), b.text(form)),
            Self::Writes(a, operator, write, b) => {
                format!("({}) {operator} {{ {write}; {} }}", a.text(form), b.text(form))
            }
        }
    }
}
