// `ms::closure::jit!` compiles a closure whose body is annotated code.
use ms::prelude::*;

#[test]
fn main() {
    let f = ms::closure::jit!(|x: &Tensor, n: &usize| if *n > 2 { x < 2.0 } else { x > 2.0 });
    let x = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]);
    assert_eq!(f(&x, &3).to_vec::<bool>(), [true, false, false]);
    assert_eq!(f(&x, &1).to_vec::<bool>(), [false, false, true]);

    // With decisions on tensors, loops, and jumps.
    let collatz = ms::closure::jit!(|x: &Tensor, most: &usize| -> Tensor {
        let (mut x, mut steps) = (x.clone(), Tensor::scalar(0.0f32));
        if x < 1.0 {
            return Tensor::scalar(-1.0f32);
        }
        while x != 1.0 {
            match &x % 2.0 {
                0.0 => x = x / 2.0,
                _ => x = x * 3.0 + 1.0,
            }
            steps += 1.0;
            if steps == *most {
                break;
            }
        }
        steps
    });
    for (x, most, want) in [(6.0f32, 100, 8.0f32), (27.0, 50, 50.0), (1.0, 100, 0.0), (0.0, 100, -1.0)] {
        assert_eq!(collatz(&Tensor::scalar(x), &most).item::<f32>(), want, "{x}");
    }
}
