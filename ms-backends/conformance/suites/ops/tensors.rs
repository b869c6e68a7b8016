//! Tests the rules of `docs/tensors.md`: the promotion table, scalars, and the result dtypes of ops.

use ms::prelude::*;
use ms::tensor::promote;

fn row(a: DType) -> String {
    let cells = DType::ALL.map(|b| format!(" {:<4} |", promote(a, b).to_string()));
    format!("| {:<4} |{}", a.to_string(), cells.concat())
}

#[test]
fn the_table_of_promotion_is_the_documented_one() {
    let page = include_str!("../pages/tensors.md");
    for dtype in DType::ALL {
        let row = row(dtype);
        assert!(page.lines().any(|line| line == row), "docs/tensors.md lacks this row:\n{row}");
    }
    let (half, wide) = (tensor![1.].cast(DType::F16), tensor![1, 2]);
    assert_eq!((half + wide).dtype(), DType::F16, "ops follow the table");
}

#[test]
fn scalars_are_weak() {
    let of = |dtype| Tensor::ones([2]).cast(dtype);
    for (what, got, want) in [
        ("f16 and 2.5", ms::catch(|| of(DType::F16) * 2.5), Some(DType::F16)),
        ("bf16 and 2", ms::catch(|| 2 * of(DType::BF16)), Some(DType::BF16)),
        ("u8 and 2", ms::catch(|| of(DType::U8) + 2), Some(DType::U8)),
        ("i32 and 2.5", ms::catch(|| of(DType::I32) * 2.5), None),
        ("u8 and 255", ms::catch(|| of(DType::U8) * 255), Some(DType::U8)),
        ("u8 and 300", ms::catch(|| of(DType::U8) + 300), None),
        ("u64 and -1", ms::catch(|| of(DType::U64) + -1), None),
        ("i8 and -128", ms::catch(|| of(DType::I8) + -128), Some(DType::I8)),
        ("i8 and 128", ms::catch(|| of(DType::I8) + 128u8), None),
        ("bool and 2", ms::catch(|| of(DType::Bool) * 2), None),
    ] {
        assert_eq!(got.as_ref().ok().map(Tensor::dtype), want, "{what}: {got:?}");
    }
}

#[test]
fn ops_choose_dtypes() {
    let (bytes, whole) = (tensor![1u8, 2], tensor![1, 2]);
    for (what, got, want) in [
        ("a sum of unsigned integers", bytes.sum(()), DType::U64),
        ("a sum of integers", whole.sum(()), DType::I64),
        ("a sum of bools", tensor![true].sum(()), DType::I64),
        ("a mean of integers", whole.mean(()), DType::F32),
        ("a quotient of integers", &whole / &whole, DType::F32),
        ("a function of integers", whole.exp(), DType::F32),
        ("a comparison", whole.lt(&whole), DType::Bool),
    ] {
        assert_eq!(got.dtype(), want, "{what}");
    }
}
