//! Random tensors as functions of a state: `random_bits`, `random_uniform`, `random_normal`,
//! `random_integers`, `random_bernoulli`.
//!
//! The state is u64 `[seed, counter]`. Element `i` depends only on seed, counter and `i`, so the numbers are the same
//! on every execution path and for every number of threads.

use super::slice::narrow;
use crate::ops::core::philox::{Stream, high_product, wide_word, wide_word_pair, word, word_pair};
use crate::ops::core::reference::evaluate_body;
use crate::ops::core::rules::{Interval, check_interval};
use crate::ops::{
    Arrays, BatchedCall, Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, Types,
    add, concat, full_of, iota, mul,
};
use crate::tensor::{Array, Attr, Attrs, DType, Dim, Dims, Layout, OpInfo, Outputs, Scalar, Type};
use ms_ir::body::{Expr, body as formula};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{KernelBuilder, Val, math};
use smallvec::smallvec;
attributes! {
    /// The attributes of [`RANDOM_BITS`]; the attributes of all distributions begin with them.
    struct BitsAttrs { shape: Dims, dtype: DType }
}

attributes! {
    /// The attributes of [`RANDOM_UNIFORM`].
    struct UniformAttrs { shape: Dims, dtype: DType, low: f64, high: f64 }
}

attributes! {
    /// The attributes of [`RANDOM_NORMAL`].
    struct NormalAttrs { shape: Dims, dtype: DType, mean: f64, std: f64 }
}

attributes! {
    /// The attributes of [`RANDOM_INTEGERS`].
    struct IntegersAttrs { shape: Dims, dtype: DType, low: i64, high: i64 }
}

attributes! {
    /// The attributes of [`RANDOM_BERNOULLI`].
    struct BernoulliAttrs { shape: Dims, dtype: DType, probability: f64 }
}

/// Draws uniform bits in a u32 or u64 dtype.
pub static RANDOM_BITS: OpDef = OpDef {
    info: OpInfo { number: 450, name: "random_bits", attrs: BitsAttrs::DECLARED },
    infer: |attrs, inputs| match BitsAttrs::of(attrs).dtype() {
        DType::U32 | DType::U64 => drawn(attrs, inputs),
        other => Err(Error::new(Code::DType, format!("random bits are u32 or u64, not {other}"))),
    },
    eval: |attrs, inputs| match BitsAttrs::of(attrs).dtype() {
        DType::U32 => fill(attrs, &mut stream(inputs[0])?.words().map(Scalar::from)),
        _ => fill(attrs, &mut stream(inputs[0])?.wide_words().map(Scalar::from)),
    },
    effects: Effects::RANDOM,
    lowering: Lowering::Position(|attrs, body, values| match BitsAttrs::of(attrs).dtype() {
        DType::U32 => formula(body, values, |it| word(it).cast(DType::U32)),
        _ => formula(body, values, wide_word),
    }),
    samples: || samples(DType::U64, []),
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_draw),
        body: None,
    },
};

/// Draws uniform floats from `low` (inclusive) to `high` (exclusive).
///
/// The value is `low + (high - low) * u` with `u` in `[0, 1)`, computed in f64 and rounded. `u` has as many random
/// binary digits as the dtype's significand. A value that would be rounded to `high` is replaced by the next lower
/// number, unless `low` is rounded to `high` too.
pub static RANDOM_UNIFORM: OpDef = OpDef {
    info: OpInfo { number: 451, name: "random_uniform", attrs: UniformAttrs::DECLARED },
    infer: |attrs, inputs| {
        let it = UniformAttrs::of(attrs);
        let (low, high) = (it.low(), it.high());
        if !(low <= high && (high - low).is_finite()) {
            let message = format!("no finite range from `low` {low} up to `high` {high}");
            return Err(Error::new(Code::Argument, message));
        }
        let types = drawn_float(attrs, inputs)?;
        if let Some(it) = [low, high].into_iter().find(|&bound| rounded(bound, it.dtype()).is_infinite()) {
            let message = format!("{it} is outside the range of {}", types[0].dtype);
            return Err(Error::new(Code::Argument, message));
        }
        Ok(types)
    },
    eval: |attrs, inputs| {
        let it = UniformAttrs::of(attrs);
        let (stream, low, high) = (stream(inputs[0])?, it.low(), it.high());
        let largest = largest(it).unwrap_or(f64::INFINITY);
        let between = move |unit: f64| Scalar::Float((low + (high - low) * unit).min(largest));
        let digits = digits(it.dtype());
        match it.dtype() {
            DType::F64 => {
                let unit = move |it: u64| (it >> (64 - digits)) as f64 / (1u64 << digits) as f64;
                fill(attrs, &mut stream.wide_words().map(|it| between(unit(it))))
            }
            _ => {
                let unit = move |it: u32| (it >> (32 - digits)) as f64 / (1u64 << digits) as f64;
                fill(attrs, &mut stream.words().map(|it| between(unit(it))))
            }
        }
    },
    effects: Effects::RANDOM,
    lowering: Lowering::Position(|attrs, body, values| {
        let it = UniformAttrs::of(attrs);
        let (dtype, low, range) = (it.dtype(), it.low(), it.high() - it.low());
        let digits = i64::from(digits(dtype));
        let largest = largest(it);
        formula(body, values, |it| {
            // Conversions of signed integers are exact, and all processors support them.
            let number = match dtype {
                DType::F64 => (wide_word(it) >> (64 - digits)).cast(DType::I64),
                _ => (word(it) >> (32 - digits)).cast(DType::I32),
            };
            let unit = number.cast(DType::F64) * (1.0 / (1u64 << digits) as f64);
            let scaled = if range == 1.0 { unit } else { unit * range };
            // A compiler may contract a sum with the product, but not a difference, so both steps are rounded.
            let moved = if low == 0.0 { scaled } else { scaled - (-low) };
            let below = match largest {
                Some(largest) => moved.min(largest),
                None => moved,
            };
            below.cast(dtype)
        })
    }),
    samples: || samples(DType::F32, [(-1.0).into(), 2.0.into()]),
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_draw),
        body: None,
    },
};

/// Draws normal floats with a mean and a standard deviation. The method is Box and Muller's (A note on the generation
/// of random normal deviates, 1958), in f64 with portable functions.
///
/// Two uniform numbers give a pair of adjacent elements. They have 32 binary digits each, for f64 64, so that no
/// magnitude exceeds 6.8, for f64 9.5, standard deviations.
pub static RANDOM_NORMAL: OpDef = OpDef {
    info: OpInfo { number: 452, name: "random_normal", attrs: NormalAttrs::DECLARED },
    infer: |attrs, inputs| {
        check_interval("random_normal", "mean", NormalAttrs::of(attrs).mean(), &Interval::FINITE)?;
        let std = NormalAttrs::of(attrs).std();
        if !(std >= 0.0 && std.is_finite()) {
            let message = format!("`std` is {std}, but a deviation is finite and at least 0");
            return Err(Error::new(Code::Argument, message));
        }
        drawn_float(attrs, inputs)
    },
    eval: |attrs, inputs| {
        let dims = BitsAttrs::of(attrs).shape().sizes();
        let state: Vec<u64> = inputs[0].on_host()?.iter().collect();
        let positions: Vec<i64> = (0..dims.iter().product::<usize>() as i64).collect();
        let one = |it: u64| Array::from_slice(&[], &[it]);
        let operands = [Array::from_slice(&[positions.len()], &positions), one(state[0]), one(state[1])];
        let body = |builder: &mut _, values: &[_]| normal_body(attrs, builder, values);
        let drawn = evaluate_body(body, BitsAttrs::of(attrs).dtype(), &operands.each_ref())?;
        Ok(smallvec![drawn.with_layout(Layout::contiguous(&dims))])
    },
    effects: Effects::RANDOM,
    lowering: Lowering::Position(normal_body),
    samples: || samples(DType::F32, [1.0.into(), 0.5.into()]),
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_draw),
        body: None,
    },
};

/// Draws uniform integers from `low` (inclusive) to `high` (exclusive).
pub static RANDOM_INTEGERS: OpDef = OpDef {
    info: OpInfo { number: 453, name: "random_integers", attrs: IntegersAttrs::DECLARED },
    infer: |attrs, inputs| {
        let it = IntegersAttrs::of(attrs);
        if !it.dtype().is_int() {
            return Err(Error::new(Code::DType, format!("random integers are not {}", it.dtype())));
        }
        if it.low() >= it.high() {
            let message = format!("no integer lies from {} up to {} exclusive", it.low(), it.high());
            return Err(Error::new(Code::Argument, message));
        }
        drawn(attrs, inputs)
    },
    eval: |attrs, inputs| {
        let it = IntegersAttrs::of(attrs);
        let (low, high) = (it.low(), it.high());
        let range = high.wrapping_sub(low) as u64;
        // The high half of a product maps 64 random bits evenly onto the range.
        let place = move |it: u64| low.wrapping_add(((it as u128 * range as u128) >> 64) as i64);
        fill(attrs, &mut stream(inputs[0])?.wide_words().map(|it| Scalar::Int(place(it))))
    },
    effects: Effects::RANDOM,
    lowering: Lowering::Position(|attrs, body, values| {
        let it = IntegersAttrs::of(attrs);
        let (dtype, low, high) = (it.dtype(), it.low(), it.high());
        let range = high.wrapping_sub(low) as u64;
        formula(body, values, |it| (high_product(wide_word(it), range).cast(DType::I64) + low).cast(dtype))
    }),
    samples: || samples(DType::I64, [(-3i64).into(), 9i64.into()]),
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_draw),
        body: None,
    },
};

/// Draws bools that are true with a given probability.
pub static RANDOM_BERNOULLI: OpDef = OpDef {
    info: OpInfo { number: 454, name: "random_bernoulli", attrs: BernoulliAttrs::DECLARED },
    infer: |attrs, inputs| {
        let probability = BernoulliAttrs::of(attrs).probability();
        if !(0.0..=1.0).contains(&probability) || BernoulliAttrs::of(attrs).dtype() != DType::Bool {
            return Err(Error::new(Code::Argument, format!("{probability} is no probability")));
        }
        drawn(attrs, inputs)
    },
    eval: |attrs, inputs| {
        let below = threshold(attrs);
        fill(attrs, &mut stream(inputs[0])?.words().map(|it| Scalar::Bool((it as u64) < below)))
    },
    effects: Effects::RANDOM,
    lowering: Lowering::Position(|attrs, body, values| {
        let below = threshold(attrs) as i64;
        formula(body, values, |it| word(it).cast(DType::I64).lt(below))
    }),
    samples: || samples(DType::Bool, [0.25.into()]),
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_draw),
        body: None,
    },
};

/// Rounds a number to a float dtype.
fn rounded(number: f64, dtype: DType) -> f64 {
    Scalar::Float(number).convert(dtype).as_f64()
}

/// Returns the largest number below `high` in the dtype, if rounding might return `high`.
fn largest(it: UniformAttrs<'_>) -> Option<f64> {
    let (low, high, dtype) = (it.low(), it.high(), it.dtype());
    let end = rounded(high, dtype);
    if rounded(low, dtype) >= end {
        return None;
    }
    let bits = Scalar::Float(end).to_bits(dtype);
    let below = match end {
        0.0 => 1 | 1 << (8 * dtype.size() - 1),
        _ if end > 0.0 => bits - 1,
        _ => bits + 1,
    };
    let below = Scalar::from_bits(below, dtype).as_f64();
    let unit = 1.0 - 0.5f64.powi(digits(dtype) as i32);
    // Rounding preserves order.
    (low + (high - low) * unit > below).then_some(below)
}

/// Returns the threshold below which a word counts as true.
fn threshold(attrs: &Attrs) -> u64 {
    (BernoulliAttrs::of(attrs).probability() * TWO_32) as u64
}

/// The number of values of a 32-bit word.
const TWO_32: f64 = 4_294_967_296.0;

/// Builds a normal number at a position. An even position has the cosine of a pair, an odd one the sine.
fn normal_body(attrs: &Attrs, body: &mut KernelBuilder, values: &[Val]) -> Val {
    let it = NormalAttrs::of(attrs);
    let (dtype, mean, std) = (it.dtype(), it.mean(), it.std());
    formula(body, values, |values: [Expr<'_>; 3]| {
        // Conversions of signed integers are exact, and all processors support them.
        // The first number is above zero. All products by powers of two are exact, also if they are contracted.
        let [uniform, turns] = match dtype {
            DType::F64 => {
                let [a, b, c, d] = wide_word_pair(values).map(|it| it.cast(DType::I64).cast(DType::F64));
                let low = 1.0 / (TWO_32 * TWO_32);
                [a * (1.0 / TWO_32) + (b + 0.5) * low, c * (1.0 / TWO_32) + d * low]
            }
            _ => {
                let [a, b] = word_pair(values).map(|it| it.cast(DType::I64).cast(DType::F64));
                [(a + 0.5) * (1.0 / TWO_32), b * (1.0 / TWO_32)]
            }
        };
        // A cosine is the sine a quarter turn further.
        let even = (values[0] & 1).eq(0);
        let turns = turns + even.select(turns.constant(0.25), 0.0);
        let radius = (math::log(uniform) * -2.0).sqrt();
        let drawn = radius * math::sin(turns * std::f64::consts::TAU);
        let scaled = if std == 1.0 { drawn } else { drawn * std };
        // A compiler may contract a sum with the product, but not a difference, so both steps are rounded.
        let moved = if mean == 0.0 { scaled } else { scaled - (-mean) };
        moved.cast(dtype)
    })
}

/// Returns the number of binary digits of a float dtype's significand.
const fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    }
}

fn drawn(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    if *inputs[0] != Type::of(DType::U64, &[2]) {
        return Err(Error::new(Code::Argument, format!("a random state is u64[2], not {}", inputs[0])));
    }
    let it = BitsAttrs::of(attrs);
    Ok(smallvec![Type::new(it.dtype(), it.shape().dims())])
}

fn drawn_float(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let dtype = BitsAttrs::of(attrs).dtype();
    if !dtype.is_float() {
        return Err(Error::new(Code::DType, format!("the distribution is of floats, not {dtype}")));
    }
    drawn(attrs, inputs)
}

/// Draws for every lane. Lanes that share a state use one draw for all of them. Lanes with separate states draw from
/// distinct seeds, even if the states are equal.
fn batch_draw(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    if !lanes.mapped[0] {
        return lanes.apply(&lanes.fronted(&[("shape", lanes.size)]), lanes.inputs);
    }
    // Multiples of the 64-bit golden ratio make the seeds of the lanes distinct.
    let number = |value: u64| full_of([1], value, DType::U64);
    let lane = add(iota(&[lanes.size, Dim::new(1)][..], 0, DType::U64), number(1));
    let golden = number(0x9E37_79B9_7F4A_7C15);
    let (seed, counter) = (narrow(&lanes.inputs[0], 1, 0, 1), narrow(&lanes.inputs[0], 1, 1, 1));
    let states = concat(&[add(seed, mul(lane, golden)), counter], 1);
    BatchedCall { inputs: &[states], ..*lanes }.one_by_one()
}

fn stream(state: &Array) -> Result<Stream> {
    let state: Vec<u64> = state.on_host()?.iter().collect();
    Ok(Stream::new(state[0], state[1]))
}

/// Fills the result with the first of infinitely many values.
fn fill(attrs: &Attrs, values: &mut dyn Iterator<Item = Scalar>) -> Result<Arrays> {
    let it = BitsAttrs::of(attrs);
    let mut next = |_| values.next().expect("a stream has no end");
    Ok(smallvec![Array::from_scalars(&it.shape().sizes(), it.dtype(), &mut next)])
}

fn samples<const N: usize>(dtype: DType, parameters: [Attr; N]) -> Vec<Sample> {
    let shape: Attr = (&[3usize, 5][..]).into();
    let attrs = Attrs::new([shape, dtype.into()].into_iter().chain(parameters));
    vec![Sample::new([SampleInput::of(DType::U64, &[2], 0.0, 1000.0)]).attrs(attrs)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates the kernel body at positions, and returns the bits of the elements.
    fn body_at(def: &OpDef, attrs: &Attrs, positions: &[i64], [seed, counter]: [u64; 2]) -> Vec<u64> {
        let Lowering::Position(rule) = def.lowering else { panic!("`{}` has a body", def.name()) };
        let one = |it: u64| Array::from_slice(&[], &[it]);
        let operands = [Array::from_slice(&[positions.len()], positions), one(seed), one(counter)];
        let body = |builder: &mut _, values: &[_]| rule(attrs, builder, values);
        let out =
            evaluate_body(body, BitsAttrs::of(attrs).dtype(), &operands.each_ref()).expect("the operands broadcast");
        bits(&out)
    }

    fn bits(array: &Array) -> Vec<u64> {
        array
            .on_host()
            .expect("the elements are readable")
            .scalars()
            .into_iter()
            .map(|it| it.to_bits(array.dtype()))
            .collect()
    }

    const STATES: [[u64; 2]; 4] =
        [[0, 0], [7, 1], [u64::MAX, u64::MAX], [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]];

    #[test]
    fn bodies_give_the_bits_of_eval() {
        const COUNT: usize = 203;
        let check = |def: &OpDef, dtype: DType, parameters: &[Attr]| {
            let shape: Attr = (&[COUNT][..]).into();
            let attrs = Attrs::new([shape, dtype.into()].into_iter().chain(parameters.iter().cloned()));
            for state in STATES {
                let want = (def.eval)(&attrs, &[&Array::from_slice(&[2], &state)]).expect("the state is one").remove(0);
                let positions: Vec<i64> = (0..COUNT as i64).collect();
                assert_eq!(body_at(def, &attrs, &positions, state), bits(&want), "`{}` {attrs:?}", def.name());
            }
        };
        for dtype in [DType::U32, DType::U64] {
            check(&RANDOM_BITS, dtype, &[]);
        }
        for dtype in DType::ALL.into_iter().filter(|it| it.is_float()) {
            for [low, high] in [[0.0, 1.0], [-1.0, 2.0], [0.1, 0.7], [3.0, 3.0], [-0.0, 1e-310], [-8e307, 8e307]] {
                check(&RANDOM_UNIFORM, dtype, &[low.into(), high.into()]);
            }
        }
        for dtype in DType::ALL.into_iter().filter(|it| it.is_int()) {
            for [low, high] in [[-3, 9], [0, 1], [-100, 1 << 40], [i64::MIN, i64::MAX], [5, i64::MAX]] {
                check(&RANDOM_INTEGERS, dtype, &[Attr::Int(low), Attr::Int(high)]);
            }
        }
        for probability in [0.0, 1e-9, 0.1, 0.5, 1.0] {
            check(&RANDOM_BERNOULLI, DType::Bool, &[probability.into()]);
        }
    }

    /// Draws normal numbers with mean 0.5 and deviation 2.
    fn normals(dtype: DType, count: usize, state: [u64; 2]) -> Vec<f64> {
        let attrs = NormalAttrs::attrs(&[count][..], dtype, 0.5, 2.0);
        let drawn =
            (RANDOM_NORMAL.eval)(&attrs, &[&Array::from_slice(&[2], &state)]).expect("the state is one").remove(0);
        drawn.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect()
    }

    /// Pairs of uniform numbers are those of the stream, and elements are Box and Muller's.
    #[test]
    fn normals_are_of_pairs_of_uniform_numbers() {
        let pair = |[a, b]: [f64; 2]| {
            let (radius, (sin, cos)) = ((-2.0 * a.ln()).sqrt(), (std::f64::consts::TAU * b).sin_cos());
            [radius * cos, radius * sin]
        };
        for (state, dtype) in STATES.into_iter().flat_map(|state| [DType::F32, DType::F64].map(|it| (state, it))) {
            let stream = Stream::new(state[0], state[1]);
            let want = (0..).flat_map(|block| {
                let words = stream.block(block).map(f64::from);
                let [a, b, c, d] = words;
                match dtype {
                    DType::F64 => {
                        let [high, low] = [1.0 / TWO_32, 1.0 / (TWO_32 * TWO_32)];
                        pair([a * high + (b + 0.5) * low, c * high + d * low]).to_vec()
                    }
                    _ => [[a, b], [c, d]].map(|[a, b]| pair([(a + 0.5) / TWO_32, b / TWO_32])).concat(),
                }
            });
            let tolerance = if dtype == DType::F64 { 1e-14 } else { 1e-6 };
            for (at, (got, want)) in normals(dtype, 203, state).into_iter().zip(want).enumerate() {
                let want = 0.5 + 2.0 * want;
                assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{dtype} {at}: {got} is not {want}");
            }
        }
    }

    /// Moments and quantiles are within five standard errors of the normal distribution's.
    #[test]
    fn normals_have_the_moments_and_quantiles_of_the_distribution() {
        const COUNT: usize = 100_000;
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let drawn: Vec<f64> = normals(dtype, COUNT, [3, 5]).into_iter().map(|it| (it - 0.5) / 2.0).collect();
            let error = 5.0 / (COUNT as f64).sqrt();
            for (power, want, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
                let moment = drawn.iter().map(|it| it.powi(power)).sum::<f64>() / COUNT as f64;
                assert!((moment - want).abs() <= error * variance.sqrt(), "{dtype}: moment {power} is {moment}");
            }
            // The probabilities of numbers above 1, 2, 3 and 4.
            for (bound, above) in [(1.0, 0.158_655), (2.0, 0.022_750), (3.0, 0.001_350), (4.0, 3.167e-5f64)] {
                for sign in [1.0, -1.0] {
                    let count = drawn.iter().filter(|&&it| sign * it > bound).count() as f64 / COUNT as f64;
                    assert!(
                        (count - above).abs() <= error * above.sqrt() + 2e-5,
                        "{dtype}: {count} beyond {sign} {bound}"
                    );
                }
            }
        }
    }

    #[test]
    fn blocks_beyond_32_bits() {
        let attrs = |dtype: DType| BitsAttrs::attrs(&[1usize][..], dtype);
        for state in STATES {
            let stream = Stream::new(state[0], state[1]);
            for block in [(1u64 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 58] {
                let words = stream.block(block).map(u64::from);
                let positions = [0, 1, 2, 3].map(|it| (4 * block + it) as i64);
                assert_eq!(body_at(&RANDOM_BITS, &attrs(DType::U32), &positions, state), words);
                let pairs = [words[0] | words[1] << 32, words[2] | words[3] << 32];
                let positions = [0, 1].map(|it| (2 * block + it) as i64);
                assert_eq!(body_at(&RANDOM_BITS, &attrs(DType::U64), &positions, state), pairs);
            }
        }
    }
}
