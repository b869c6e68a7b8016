//! Tests summaries of networks.

use ms::prelude::*;
use ms::tensor::Type;

#[cell]
struct Block {
    fc: nn::Dense,
    norm: nn::LayerNorm,
}

#[cell]
impl Block {
    fn construct(&self, x: &Tensor) -> Tensor {
        x + self.fc(&self.norm(x))
    }
}

#[cell]
struct Net {
    stem: nn::Conv2d,
    norm: nn::BatchNorm,
    blocks: nn::CellList<Block>,
    tied: nn::Dense,
    drop: nn::Dropout,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.norm(&self.stem(x)).mean([2, 3]);
        let x = self.blocks.iter().fold(x, |x, block| block.call(&x));
        self.tied(&self.drop(&self.tied(&x)))
    }
}

#[test]
fn rows_have_parameters_results_and_work() {
    let block = || Block { fc: nn::Dense::new(4, 4), norm: nn::LayerNorm::new(4) };
    let net = Net {
        stem: nn::Conv2d::new(2, 4, 3).stride(2),
        norm: nn::BatchNorm::new(4),
        blocks: vec![block(), block()].into(),
        tied: nn::Dense::new(4, 4).without_bias(),
        drop: nn::Dropout::new(0.5),
    };
    let before = net.state_dict();
    let summary = nn::summary(&net, |net| net.call(&Tensor::ones([3, 2, 9, 9])));
    let rows: Vec<_> = summary
        .rows
        .iter()
        .map(|it| {
            let outputs: Vec<String> = it.outputs.iter().map(|it| it.to_string()).collect();
            (it.path.as_str(), it.cell, it.elements, it.calls, outputs.join(", "))
        })
        .collect();
    let of = |shape: &str| format!("f32[{shape}]");
    let want = [
        ("", "Net", 76 + 16 + 2 * 28 + 16, 1, of("3, 4")),
        ("stem", "Conv", 4 * 2 * 9 + 4, 1, of("3, 4, 4, 4")),
        ("norm", "BatchNorm", 16, 1, of("3, 4, 4, 4")),
        ("blocks[0]", "Block", 28, 1, of("3, 4")),
        ("blocks[0].fc", "Dense", 20, 1, of("3, 4")),
        ("blocks[0].norm", "LayerNorm", 8, 1, of("3, 4")),
        ("blocks[1]", "Block", 28, 1, of("3, 4")),
        ("blocks[1].fc", "Dense", 20, 1, of("3, 4")),
        ("blocks[1].norm", "LayerNorm", 8, 1, of("3, 4")),
        ("tied", "Dense", 16, 2, of("3, 4")),
        ("drop", "Dropout", 0, 1, of("3, 4")),
    ];
    assert_eq!(rows, want);
    assert_eq!((summary.trained, summary.bytes), (156, 4 * 164));
    let flops = |path: &str| summary.rows.iter().find(|it| it.path == path).expect("it is listed").flops;
    // Each result has two operations for each tap, and one for the bias.
    assert_eq!(flops("stem"), 3 * 4 * 4 * 4 * (2 * 2 * 9 + 1));
    assert_eq!((flops("blocks[1].fc"), flops("tied")), (3 * 4 * (2 * 4 + 1), 2 * 3 * 4 * 2 * 4));
    // Dropout costs nothing in evaluation. The block adds the residual connection.
    assert_eq!(flops("drop"), 0);
    assert_eq!(flops("blocks[0]"), flops("blocks[0].fc") + flops("blocks[0].norm") + 3 * 4);
    let text = summary.to_string();
    for part in ["  stem: Conv", "weight [4, 2, 3, 3], bias [4]", "164 elements, 156 of them trained, in 656 bytes"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    // The summary trains nothing, and restores the modes.
    let after = net.state_dict();
    assert!(before.iter().zip(after.iter()).all(|(a, b)| a.1.to_vec::<f32>() == b.1.to_vec::<f32>()));
    assert_ne!(
        net.call(&Tensor::ones([3, 2, 9, 9])).to_vec::<f32>(),
        net.call(&Tensor::ones([3, 2, 9, 9])).to_vec::<f32>()
    );
    let traced = ms::jit(|net: &nn::Dense, x: &Tensor| {
        nn::summary(net, |net| net.call(x));
        net.call(x)
    });
    let error = ms::catch(|| traced(&nn::Dense::new(2, 2), &Tensor::ones([1, 2]))).expect_err("it is traced");
    assert_eq!(error.code(), ms::Code::Argument);
}

#[test]
fn ops_count_their_work() {
    let of = |shape: &[usize]| Type::of(DType::F32, shape);
    let (x, w, y) = (of(&[2, 4, 9]), of(&[6, 2, 3]), of(&[2, 6, 7]));
    // Each window has two operations for each of its taps and for each of two channels.
    let products = 2 * (2 * 6 * 7) * (2 * 3);
    let bits = Type::of(DType::I64, &[5]);
    let cases: [(&ops::OpDef, &[&Type], &Type, u64); 9] = [
        (&ops::CONV, &[&x, &w], &y, products),
        (&ops::CONV_INPUT_GRAD, &[&y, &w], &x, products),
        (&ops::CONV_WEIGHT_GRAD, &[&x, &y], &w, products),
        (&ops::MATMUL, &[&of(&[7, 3, 4]), &of(&[4, 5])], &of(&[7, 3, 5]), 2 * 7 * 3 * 5 * 4),
        (&ops::ADD, &[&of(&[3, 1]), &of(&[1, 5])], &of(&[3, 5]), 15),
        (&ops::LESS, &[&of(&[5]), &of(&[5])], &Type::of(DType::Bool, &[5]), 5),
        (&ops::SUM, &[&of(&[3, 5])], &of(&[3]), 15),
        (&ops::ADD, &[&bits, &bits], &bits, 0),
        (&ops::PERMUTE, &[&of(&[3, 5])], &of(&[5, 3]), 0),
    ];
    for (def, inputs, output, want) in cases {
        let attrs = &(def.samples)()[0].attrs;
        assert_eq!(ops::flops(def.op(), attrs, inputs, std::slice::from_ref(output)), want, "{}", def.op().name());
    }
}

#[test]
fn debug_shows_layers() {
    let net = nn::sequential![nn::Dense::new(3, 2), nn::ReLU];
    let text = format!("{net:?}");
    assert!(text.contains("Dense { weight: f32[2, 3], bias: f32[2] }") && text.contains("ReLU"), "{text}");
    let text = format!("{:?}", nn::LSTM::new(2, 3).bidirectional(true));
    assert!(text.contains("f32[12, 2]"), "{text}");
}
