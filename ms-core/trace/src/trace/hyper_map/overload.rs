//! Implements overloaded functions, selected by the kinds of their arguments.

use super::value::{Number, Structure, Value};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result};
use ms_ops::tensor::{Parameter, Tensor};
use std::borrow::Cow;
use std::rc::Rc;

/// A kind of argument that a registered function takes by reference.
#[diagnostic::on_unimplemented(
    message = "no function of `&{Self}` can be registered",
    note = "take `&Tensor`, `&Parameter`, `&i64`, `&f64`, `&Number`, `&bool`, `&str`, `&[Value]` for tuples and lists, or \
            `&Value` for anything"
)]
pub trait Kind: ToOwned {
    /// The name in messages.
    const NAME: &'static str;

    /// Converts the value to this kind. Returns it with the conversion distance, which is 0 for a value of this kind.
    fn accept(value: &Value) -> Option<(Cow<'_, Self>, u8)>;
}

macro_rules! kinds {
    ($($ty:ty, $name:literal: |$value:ident| { $($pattern:pat => $it:expr, $distance:literal;)+ })*) => {$(
        impl Kind for $ty {
            const NAME: &'static str = $name;

            fn accept($value: &Value) -> Option<(Cow<'_, Self>, u8)> {
                match $value {
                    $($pattern => Some(($it, $distance)),)+
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
        }
    )*};
}

kinds! {
    Tensor, "Tensor": |value| {
        Value::Tensor(it) => Cow::Borrowed(it), 0;
        Value::Parameter(it) => Cow::Owned(it.value()), 1;
    }
    Parameter, "Parameter": |value| { Value::Parameter(it) => Cow::Borrowed(it), 0; }
    i64, "Int": |value| { Value::Int(it) => Cow::Borrowed(it), 0; }
    f64, "Float": |value| { Value::Float(it) => Cow::Borrowed(it), 0; }
    bool, "Bool": |value| { Value::Bool(it) => Cow::Borrowed(it), 0; }
    str, "String": |value| { Value::Str(it) => Cow::Borrowed(it), 0; }
    Number, "Number": |value| {
        Value::Int(it) => Cow::Owned(Number::Int(*it)), 1;
        Value::Float(it) => Cow::Owned(Number::Float(*it)), 1;
    }
    [Value], "Tuple or List": |value| {
        Value::Tuple(it) => Cow::Borrowed(&it[..]), 0;
        Value::List(it) => Cow::Borrowed(&it[..]), 0;
    }
    Value, "Any": |value| { it => Cow::Borrowed(it), 2; }
}

/// A function that can be registered: of one to five references to [`Kind`]s.
pub trait Overload<Args> {
    /// The names of the kinds.
    const KINDS: &'static [&'static str];

    /// Returns the distance of the arguments from its kinds; `None` if it does not accept them.
    fn distance(arguments: &[&Value]) -> Option<u32>;

    /// Calls the function on arguments that it accepts.
    fn call(&self, arguments: &[&Value]) -> Value;
}

macro_rules! overloads {
    ($(($($kind:ident $i:tt),+) $n:literal;)*) => {$(
        impl<Func, Out, $($kind: Kind + ?Sized),+> Overload<(Out, $(Box<$kind>,)+)> for Func
        where
            Func: Fn($(&$kind),+) -> Out,
            Out: Structure,
        {
            const KINDS: &'static [&'static str] = &[$($kind::NAME),+];

            fn distance(arguments: &[&Value]) -> Option<u32> {
                if arguments.len() != $n {
                    return None;
                }
                Some(0 $(+ $kind::accept(arguments[$i])?.1 as u32)+)
            }

            fn call(&self, arguments: &[&Value]) -> Value {
                self($(&*$kind::accept(arguments[$i]).expect("`distance` accepts them").0),+).value()
            }
        }
    )*};
}

overloads! {
    (A 0) 1;
    (A 0, B 1) 2;
    (A 0, B 1, C 2) 3;
    (A 0, B 1, C 2, D 3) 4;
    (A 0, B 1, C 2, D 3, E 4) 5;
}

/// A function with several overloads. The kinds of the arguments select one.
///
/// ```
/// use ms_core::{Tensor, ops, tensor, trace::{MultitypeFuncGraph, Value}};
/// let square = MultitypeFuncGraph::new("square")
///     .register(|x: &Tensor| ops::square(x))
///     .register(|x: &i64| x * x);
/// assert!(matches!(square.call(&[&3i64]), Value::Int(9)));
/// ```
#[derive(Clone)]
pub struct MultitypeFuncGraph {
    name: Rc<str>,
    forms: Vec<Form>,
}

#[derive(Clone)]
struct Form {
    kinds: &'static [&'static str],
    distance: fn(&[&Value]) -> Option<u32>,
    call: Rc<Call>,
}

type Call = dyn Fn(&[&Value]) -> Value;

impl MultitypeFuncGraph {
    /// Creates a function without overloads.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), forms: Vec::new() }
    }

    /// Adds an overload, a function of references. They are `&Tensor`, `&Parameter`, `&i64`, `&f64`, `&Number` (either
    /// of the two), `&bool`, `&str`, `&[Value]` (a tuple or a list) or `&Value` (anything). If several overloads accept
    /// the arguments, the one with the smallest distance is called, and of equally near ones the first. A parameter is
    /// read if a tensor is expected.
    pub fn register<Args, F: Overload<Args> + 'static>(mut self, form: F) -> Self {
        let call = Rc::new(move |arguments: &[&Value]| form.call(arguments));
        self.forms.push(Form { kinds: F::KINDS, distance: F::distance, call });
        self
    }

    /// Calls the overload that fits.
    ///
    /// # Panics
    /// Raises [`Code::NoOverload`] if none does.
    #[track_caller]
    pub fn call(&self, arguments: &[&dyn Structure]) -> Value {
        let arguments: Vec<Value> = arguments.map_vec(|it| it.value());
        self.apply(&arguments.iter().collect::<Vec<_>>()).or_raise()
    }

    pub(super) fn apply(&self, arguments: &[&Value]) -> Result<Value> {
        let near = self.forms.iter().filter_map(|it| Some(((it.distance)(arguments)?, it)));
        match near.min_by_key(|it| it.0) {
            Some((_, form)) => Ok((form.call)(arguments)),
            None => Err(self.refusal(arguments)),
        }
    }

    fn refusal(&self, arguments: &[&Value]) -> Error {
        let given = arguments.map_vec(|it| it.kind()).join(", ");
        let forms = self.forms.map_vec(|it| format!("({})", it.kinds.join(", "))).join(", ");
        let known = if forms.is_empty() { "it has none".to_owned() } else { format!("it has {forms}") };
        Error::new(Code::NoOverload, format!("`{}` has no form for ({given}); {known}", self.name))
            .with_op(&*self.name)
            .with_operands(arguments.iter().map(|it| it.to_string()))
            .help("register a function of these kinds")
    }
}
