//! Results of compiled functions: tensors, trees, host values, nothing, and `Result`s.
use ms::prelude::*;

#[jit]
fn nothing(log: &Parameter, x: &Tensor) {
    log.set(x);
}

#[jit]
fn facts(x: &Tensor) -> (usize, Vec<usize>, DType, Tensor) {
    (x.rank(), x.shape().to_vec(), x.dtype(), x + 1.0)
}

#[jit]
fn library(x: &Tensor, size: i64) -> Result<Tensor> {
    Ok(x.reshape([size, -1]))
}

#[derive(Debug)]
enum Mine {
    Number(std::num::ParseIntError),
    Library(ms::Error),
}

impl From<std::num::ParseIntError> for Mine {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Number(error)
    }
}

impl From<ms::Error> for Mine {
    fn from(error: ms::Error) -> Self {
        Self::Library(error)
    }
}

#[jit]
fn mine(x: &Tensor, size: &str) -> std::result::Result<Tensor, Mine> {
    let size: i64 = size.parse()?;
    let text = size.to_string();
    let Some(last) = text.chars().last() else { return Ok(x.clone()) };
    Ok(if last == '7' { x.clone() } else { x.reshape([size]) })
}

#[test]
fn main() {
    let x = tensor![1.0, 2.0, 3.0, 4.0];
    let log = Parameter::new(Tensor::zeros([4]), "log");
    for _ in 0..2 {
        nothing(&log, &x);
        assert_eq!(log.value().to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
        let (rank, shape, dtype, y) = facts(&x);
        assert_eq!((rank, &shape[..], dtype, y.to_vec::<f32>()[3]), (1, &[4][..], DType::F32, 5.0));
        assert_eq!(library(&x, 2).expect("four elements").shape(), [2, 2]);
        assert_eq!(library(&x, 3).expect_err("no third of four").code(), ms::Code::Argument);
        assert_eq!(mine(&x, "4").expect("four elements").shape(), [4]);
        assert_eq!(mine(&x, "17").expect("untouched").shape(), [4]);
        assert!(matches!(mine(&x, "x"), Err(Mine::Number(_))));
        assert!(matches!(mine(&x, "5"), Err(Mine::Library(error)) if error.report().location.is_some()));
    }
}
