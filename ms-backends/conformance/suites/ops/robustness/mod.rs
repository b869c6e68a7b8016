//! Tests input at the edge of every domain, which is an error with a code, or has NumPy's answer.
//!
//! Nothing else panics, neither by an overflow, nor an index out of range, nor a failed allocation.

#![forbid(unsafe_code)]

mod arguments;
mod one_rule;
mod shapes;
mod sizes;

use ms::prelude::*;
use ms::{Code, Result};
use ms_conformance::late_errors::catch;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The expected outcome of a call.
enum Want {
    /// An error with this code.
    Code(Code),
    /// A tensor of this shape with these elements in row-major order; NaN equals NaN.
    Gives(&'static [usize], &'static [f64]),
}

use Want::{Code as Refused, Gives};

struct Case(&'static str, fn() -> Tensor, Want);

/// Returns the difference of a case's outcome from the expected one.
fn defect(case: &Case) -> Option<String> {
    let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| catch(case.1))) else {
        return Some("panicked without an error".into());
    };
    verdict(outcome, &case.2)
}

/// Returns the difference of an outcome from the expected one.
fn verdict(outcome: Result<Tensor>, want: &Want) -> Option<String> {
    // A device may report an error later.
    let read = |got: Tensor| catch(|| (got.shape().to_vec(), got.cast(DType::F64).to_vec::<f64>()));
    let outcome = outcome.and_then(|got| ms::synchronize().map(|()| got)).and_then(read);
    match (outcome, want) {
        (Err(error), Refused(code)) if error.code() == *code => None,
        (Err(error), _) => Some(format!("refused with {error}")),
        (Ok((got, _)), Refused(code)) => Some(format!("accepted, not refused with {code}: {got:?}")),
        (Ok((got, values)), Gives(shape, elements)) => {
            let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            let fits = got == *shape && values.len() == elements.len() && values.iter().zip(*elements).all(same);
            (!fits).then(|| format!("gave {got:?} {values:?}, not {shape:?} {elements:?}"))
        }
    }
}

fn check(cases: &[Case]) {
    let found: Vec<_> = cases.iter().filter_map(|it| Some(format!("{}: {}", it.0, defect(it)?))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

const NAN: f64 = f64::NAN;
const MAX: usize = usize::MAX;

fn row() -> Tensor {
    tensor![1.0, 2.0, 3.0]
}

fn empty() -> Tensor {
    Tensor::ones([0])
}

fn image(sides: [usize; 2]) -> Tensor {
    Tensor::ones([1, 1, sides[0], sides[1]])
}
