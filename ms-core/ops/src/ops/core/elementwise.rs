//! Shared code of elementwise ops, and the macro that declares one.

use super::operand::{Operand, operands};
use super::rules::{broadcast_dims, broadcast_shape};
use super::signs::with_signs;
use crate::ops::{Arrays, OpDef, Sample, SampleInput, Types};
use crate::tensor::{Array, Attrs, DType, Kind, Scalar, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

/// The dtypes that an op accepts, and the conversion of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Every dtype.
    Any,
    /// Integers and floats.
    Numeric,
    /// Floats; bools and integers are converted to f32.
    Float,
    /// Bools and integers.
    Integral,
    /// Integers.
    Integer,
    /// Bools; other dtypes are compared with zero.
    Logical,
}

impl Domain {
    /// Returns the dtype to which an operand is converted.
    ///
    /// # Errors
    /// [`Code::DType`] for a dtype that the op does not accept.
    pub fn convert(self, dtype: DType) -> Result<DType> {
        let refuse = |takes: &str, help: &str| {
            Err(Error::new(Code::DType, format!("takes {takes}, not {dtype}")).help(help.to_owned()))
        };
        match (self, dtype.kind()) {
            (Self::Numeric, Kind::Bool) => refuse("numbers", "cast first, or use a `logical_` function"),
            (Self::Integer, Kind::Bool | Kind::Float) => refuse("integers", "cast first"),
            (Self::Integral, Kind::Float) => refuse("integers and bools", "cast first"),
            (Self::Float, Kind::Bool | Kind::Int) => Ok(DType::F32),
            (Self::Logical, _) => Ok(DType::Bool),
            _ => Ok(dtype),
        }
    }

    /// Whether the op takes operands of this dtype without conversion.
    #[inline]
    fn keeps(self, dtype: DType) -> bool {
        match self {
            Self::Any => true,
            Self::Numeric => dtype.kind() != Kind::Bool,
            Self::Float => dtype.kind() == Kind::Float,
            Self::Integral => dtype.kind() != Kind::Float,
            Self::Integer => dtype.kind() == Kind::Int,
            Self::Logical => dtype == DType::Bool,
        }
    }

    /// Returns the dtypes of samples of ops with this domain.
    fn sampled(self) -> &'static [DType] {
        use DType::*;
        match self {
            Self::Any => &[F64, F16, BF16, I32, I64, U8, Bool],
            Self::Numeric => &[F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64],
            Self::Float => &[F64, F16, BF16],
            Self::Integral => &[I8, I16, I64, U8, U16, U32, U64, Bool],
            Self::Integer => &[I8, I16, I64, U8, U16, U32, U64],
            Self::Logical => &[],
        }
    }

    /// Returns the dtype of the first samples.
    fn sampled_first(self) -> DType {
        match self {
            Self::Any | Self::Numeric | Self::Float => DType::F32,
            Self::Integral | Self::Integer => DType::I32,
            Self::Logical => DType::Bool,
        }
    }
}

/// Infers the type of the result. The operands have one dtype of the domain and are broadcast; the result is `bool` or
/// of that dtype.
///
/// # Errors
/// [`Code::DType`] if dtypes differ or are not in the domain, [`Code::Shape`] if shapes do not broadcast.
pub fn infer(domain: Domain, to_bool: bool, inputs: &[&Type]) -> Result<Types> {
    let dtype = inputs[0].dtype;
    if domain.convert(dtype)? != dtype {
        return Err(Error::new(Code::DType, format!("takes {}, not {dtype}", domain.convert(dtype)?)));
    }
    let mut dims = inputs[0].dims.clone();
    for other in &inputs[1..] {
        if other.dtype != dtype {
            return Err(Error::new(Code::DType, format!("dtypes {dtype} and {} differ", other.dtype)));
        }
        dims = broadcast_dims(&dims, &other.dims)?;
    }
    Ok(smallvec![Type::new(if to_bool { DType::Bool } else { dtype }, dims)])
}

/// Evaluates `formula` on the scalars at each position by the reference, and rounds or wraps to `dtype`.
///
/// # Errors
/// [`Code::Shape`] when the shapes do not broadcast.
pub fn evaluate(dtype: DType, inputs: &[&Array], formula: &dyn Fn(&[Scalar]) -> Scalar) -> Result<Arrays> {
    let shape = broadcast_shape(inputs.iter().map(|it| it.shape()))?;
    let columns: Vec<Vec<Scalar>> = inputs
        .iter()
        .map(|it| Ok(it.with_layout(it.layout().broadcast_to(&shape)?).on_host()?.scalars()))
        .collect::<Result<_>>()?;
    let mut row = vec![Scalar::Bool(false); inputs.len()];
    let out = Array::from_scalars(&shape, dtype, &mut |i| {
        for (slot, column) in row.iter_mut().zip(&columns) {
            *slot = column[i];
        }
        formula(&row)
    });
    Ok(smallvec![out])
}

/// Applies an elementwise op of one operand.
#[track_caller]
pub fn unary(def: &'static OpDef, domain: Domain, x: &Tensor) -> Tensor {
    propagate_poison!(x);
    let dtype = domain.convert(x.dtype()).map_err(|it| it.with_op(def.name()).with_operands([x.ty().to_string()]));
    let dtype = or_poison!(dtype);
    if dtype == x.dtype() {
        return apply1(def.op(), &Attrs::none(), &[x]);
    }
    apply1(def.op(), &Attrs::none(), &[&crate::ops::cast(x, dtype)])
}

/// Applies an elementwise op of two operands, in their common dtype.
#[track_caller]
pub fn binary(def: &'static OpDef, domain: Domain, a: Operand<'_>, b: Operand<'_>) -> Tensor {
    if let (Operand::Tensor(a), Operand::Tensor(b)) = (&a, &b) {
        if a.dtype() == b.dtype() && domain.keeps(a.dtype()) {
            return apply1(def.op(), &Attrs::none(), &[a, b]);
        }
        propagate_poison!(a, b);
        if let Some(compared) = with_signs(def, a, b) {
            return compared;
        }
    }
    let [a, b] = or_poison!(operands(def.name(), domain, [a, b]));
    apply1(def.op(), &Attrs::none(), &[&*a, &*b])
}

/// Converts an integer scalar without loss.
pub fn wide(scalar: Scalar) -> i128 {
    match scalar {
        Scalar::UInt(it) => it as i128,
        other => other.as_i64() as i128,
    }
}

/// Applies a function of one float.
pub fn float1(v: &[Scalar], float: impl Fn(f64) -> f64) -> Scalar {
    Scalar::Float(float(v[0].as_f64()))
}

/// Applies a function of two floats.
pub fn float2(v: &[Scalar], float: impl Fn(f64, f64) -> f64) -> Scalar {
    Scalar::Float(float(v[0].as_f64(), v[1].as_f64()))
}

/// Applies a function of a number, which may be an integer.
pub fn number1(v: &[Scalar], float: impl Fn(f64) -> f64, int: impl Fn(i128) -> i128) -> Scalar {
    match v[0] {
        Scalar::Float(it) => Scalar::Float(float(it)),
        it => Scalar::Int(int(wide(it)) as i64),
    }
}

/// Applies a function of two numbers, which may be integers.
pub fn number2(v: &[Scalar], float: impl Fn(f64, f64) -> f64, int: impl Fn(i128, i128) -> i128) -> Scalar {
    match (v[0], v[1]) {
        (Scalar::Float(a), Scalar::Float(b)) => Scalar::Float(float(a, b)),
        (a, b) => Scalar::Int(int(wide(a), wide(b)) as i64),
    }
}

/// Returns samples of an elementwise op with these ranges of operands. They cover broadcasting, empty and scalar
/// shapes, and the dtypes of the domain.
pub fn samples<const N: usize>(domain: Domain, ranges: [(f64, f64); N]) -> Vec<Sample> {
    const SHAPES: [[&[usize]; 3]; 4] =
        [[&[3, 5], &[3, 5], &[3, 5]], [&[4, 1, 3], &[2, 1], &[3]], [&[], &[], &[2]], [&[0, 3], &[3], &[1]]];
    let sample = |dtype, shapes: &[&[usize]]| {
        Sample::new(ranges.iter().zip(shapes).map(|(&(low, high), shape)| SampleInput::of(dtype, shape, low, high)))
    };
    let shapes = SHAPES.iter().map(|shapes| sample(domain.sampled_first(), shapes));
    let dtypes = domain.sampled().iter().map(|&dtype| sample(dtype, &SHAPES[0]));
    shapes.chain(dtypes).collect()
}

/// Declares an elementwise primitive of one or two operands: its definition, its function, and its method of
/// [`Tensor`].
///
/// ```text
/// elementwise! {
///     /// What it computes.
///     NAME = number: function as method(a, b), Domain -> same | bool;
///     eval: formula of the scalars in `v`;
///     vjp |g, y| { a: gradient of a, b: gradient of b };      or: finite_vjp |g, y| ..; vjp zero; vjp none "why";
///     lower body | wide_body: formula of the values;
///     samples [range of a, range of b];
/// }
/// ```
///
/// In `vjp`, `g` is the gradient of the result `y`; gradients of broadcast operands are summed to their shapes. Write
/// `finite_vjp` if derivatives of every order are finite at all finite operands. `wide_body` computes f16 and bf16 in
/// f32 and rounds once.
macro_rules! elementwise {
    (
        $(#[$doc:meta])*
        $def:ident = $number:literal: $function:ident($($x:ident),+), $($rest:tt)*
    ) => {
        elementwise! { $(#[$doc])* $def = $number: $function as $function($($x),+), $($rest)* }
    };
    (
        $(#[$doc:meta])*
        $def:ident = $number:literal: $function:ident as $method:ident($($x:ident),+), $domain:ident -> $to:ident;
        eval |$v:ident| $eval:expr;
        $vjp:ident $(|$g:ident, $y:ident| { $($vx:ident: $gradient:expr),+ $(,)? })? $($word:ident $($why:literal)?)?;
        lower $body:ident $lower:expr;
        samples [$($range:expr),+];
    ) => {
        #[doc = concat!("The primitive of [`", stringify!($function), "`].")]
        pub static $def: $crate::ops::OpDef = $crate::ops::OpDef {
            info: $crate::tensor::OpInfo { number: $number, name: stringify!($function), attrs: &[] },
            infer: |_, inputs| {
                $crate::ops::core::elementwise::infer($crate::ops::Domain::$domain, elementwise!(@to $to), inputs)
            },
            eval: |_, inputs| {
                let dtype = if elementwise!(@to $to) { $crate::tensor::DType::Bool } else { inputs[0].dtype() };
                $crate::ops::core::elementwise::evaluate(dtype, inputs, &|$v| $eval)
            },
            effects: $crate::ops::Effects::NONE,
            lowering: $crate::ops::Lowering::Map(|_, builder, operands| {
                ms_ir::body::$body(builder, operands, $lower)
            }),
            samples: || $crate::ops::core::elementwise::samples($crate::ops::Domain::$domain, [$($range),+]),
            transforms: &$crate::ops::TransformRules {
                derivative: elementwise!(
                    @vjp [$($x)+] $(|$g, $y| { $($vx: $gradient),+ })? $($word $($why)?)?
                ),
                finite_derivatives: elementwise!(@finite $vjp $($word)?),
                batching: $crate::ops::Batching::Derived,
                body: None,
            },
        };

        elementwise!(@function [$(#[$doc])*] $def $function $method $domain ($($x),+));
    };

    (@dtypes Any) => { "Of every dtype." };
    (@dtypes Numeric) => { "Of integers and floats; bools raise [`Code::DType`](crate::Code::DType)." };
    (@dtypes Float) => { "Of floats; bools and integers become f32 first." };
    (@dtypes Integral) => { "Of bools and integers; floats raise [`Code::DType`](crate::Code::DType)." };
    (@dtypes Integer) => { "Of integers; bools and floats raise [`Code::DType`](crate::Code::DType)." };
    (@dtypes Logical) => { "Of every dtype: numbers are true where they differ from zero." };

    (@method $function:ident) => {
        concat!("The function [`", stringify!($function), "`](crate::ops::", stringify!($function), ") of this tensor.")
    };

    (@finite vjp) => { false };
    (@finite finite_vjp) => { true };
    (@finite vjp zero) => { true };
    (@finite vjp none) => { true };

    (@to same) => { false };
    (@to bool) => { true };

    (@vjp [$($x:ident)+] |$g:ident, $y:ident| { $($vx:ident: $gradient:expr),+ }) => {
        $crate::ops::Derivative::Rule(|it| {
            let [$($x),+] = it.inputs else { unreachable!("the op has as many operands as its declaration") };
            #[allow(unused_variables)]
            let ($g, $y) = (it.cotangent(), &it.outputs[0]);
            let mut needs = it.needs.iter();
            smallvec::smallvec![$(
                needs.next().is_some_and(|it| *it).then(|| $crate::ops::core::rules::sum_to(&$gradient, $vx))
            ),+]
        })
    };
    (@vjp [$($x:ident)+] zero) => { $crate::ops::Derivative::Zero };
    (@vjp [$($x:ident)+] none $why:literal) => { $crate::ops::Derivative::None($why) };

    (@function [$(#[$doc:meta])*] $def:ident $function:ident $method:ident $domain:ident ($x:ident)) => {
        $(#[$doc])*
        ///
        #[doc = elementwise!(@dtypes $domain)]
        #[track_caller]
        pub fn $function($x: impl $crate::tensor::AsTensor) -> $crate::Tensor {
            $crate::ops::core::elementwise::unary(&$def, $crate::ops::Domain::$domain, &$x.as_tensor())
        }

        impl $crate::Tensor {
            #[doc = elementwise!(@method $function)]
            #[track_caller]
            pub fn $method(&self) -> Self {
                $function(self)
            }
        }
    };
    (@function [$(#[$doc:meta])*] $def:ident $function:ident $method:ident $domain:ident ($a:ident, $b:ident)) => {
        $(#[$doc])*
        ///
        /// Operands are broadcast and converted to their common dtype; a number is converted to the dtype of the other
        /// operand.
        #[doc = elementwise!(@dtypes $domain)]
        ///
        /// # Panics
        /// Raises [`Code::Shape`](crate::Code::Shape) when the shapes do not broadcast, and
        /// [`Code::DType`](crate::Code::DType) for a number that does not fit the tensor's dtype.
        #[track_caller]
        pub fn $function($a: impl $crate::ops::IntoOperand, $b: impl $crate::ops::IntoOperand) -> $crate::Tensor {
            let ($a, $b) = ($a.operand(), $b.operand());
            $crate::ops::core::elementwise::binary(&$def, $crate::ops::Domain::$domain, $a, $b)
        }

        impl $crate::Tensor {
            #[doc = elementwise!(@method $function)]
            #[track_caller]
            pub fn $method(&self, $b: impl $crate::ops::IntoOperand) -> Self {
                $function(self, $b)
            }
        }
    };
}
pub(crate) use elementwise;

#[cfg(test)]
mod tests {
    use super::Domain;
    use crate::tensor::DType;

    #[test]
    fn operands_that_are_not_converted_are_kept() {
        use Domain::*;
        for domain in [Any, Numeric, Float, Integral, Integer, Logical] {
            for dtype in DType::ALL {
                let is_kept = domain.convert(dtype).is_ok_and(|it| it == dtype);
                assert_eq!(domain.keeps(dtype), is_kept, "{dtype}");
            }
        }
    }
}
