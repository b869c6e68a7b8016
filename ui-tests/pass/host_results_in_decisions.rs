// `?` and `let .. else` on host results together with control flow on tensors: an error leaves the call, a
// host jump after one on a tensor is a flag.
use ms::prelude::*;

fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|_| ms::Error::new(ms::Code::Argument, "no number"))
}

#[jit]
fn run(x: &Tensor, texts: &[String]) -> Result<Tensor> {
    let mut x = x.clone();
    for text in texts {
        if x > 100.0 {
            break;
        }
        let Some(rest) = text.strip_prefix('+') else {
            if x > 10.0 {
                x = x * 2.0;
                continue;
            }
            return Ok(-x);
        };
        x = if x > 5.0 { x + number(rest)? } else { x * number(rest)? };
    }
    Ok(x)
}

#[test]
fn main() {
    let texts = |it: &[&str]| it.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let call = |x: f32, it: &[&str]| run(&Tensor::scalar(x), &texts(it)).map(|it| it.item::<f32>());
            assert_eq!(call(2.0, &["+3", "+7", "stop", "+1"]).expect("numbers"), 27.0);
            assert_eq!(call(1.0, &["+3", "+1", "stop", "+1"]).expect("numbers"), -3.0);
            assert_eq!(call(200.0, &["+3"]).expect("numbers"), 200.0);
            assert_eq!(call(2.0, &["+x"]).expect_err("no number").code(), ms::Code::Argument);
        });
    }
}
