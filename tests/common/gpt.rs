//! Defines a small GPT, with blocks that are marked `#[lazy_inline]` and blocks that are not.

macro_rules! models {
    ($($module:ident: $(#[$mark:meta])?;)*) => {$(
        #[allow(dead_code, reason = "each test uses one of the models")]
        pub mod $module {
            use ms::prelude::*;

            /// Attention and a feed-forward network, each after a normalisation.
            #[cell]
            pub struct Block {
                norm1: Parameter,
                norm2: Parameter,
                query: nn::Dense,
                key: nn::Dense,
                value: nn::Dense,
                out: nn::Dense,
                up: nn::Dense,
                down: nn::Dense,
                heads: usize,
            }

            #[cell]
            impl Block {
                $(#[$mark])?
                pub fn new(width: usize, heads: usize) -> Self {
                    let dense = || nn::Dense::new(width, width);
                    Self {
                        norm1: Parameter::new(Tensor::ones([width]), ""),
                        norm2: Parameter::new(Tensor::ones([width]), ""),
                        query: dense(),
                        key: dense(),
                        value: dense(),
                        out: dense(),
                        up: nn::Dense::new(width, 4 * width),
                        down: nn::Dense::new(4 * width, width),
                        heads,
                    }
                }

                fn construct(&self, x: &Tensor) -> Tensor {
                    let dims = x.dims();
                    let split = |x: Tensor| {
                        x.reshape((dims[0], dims[1], self.heads, dims[2] / self.heads)).permute([0, 2, 1, 3])
                    };
                    let h = ops::layer_norm(x, Some(&self.norm1.value()), None, -1, 1e-5);
                    let (q, k, v) = (split(self.query(&h)), split(self.key(&h)), split(self.value(&h)));
                    let options = ops::AttentionOptions { causal: true, ..Default::default() };
                    let a = ops::scaled_dot_product_attention(&q, &k, &v, &options);
                    let x = x + self.out(&a.permute([0, 2, 1, 3]).reshape(&*dims));
                    let h = ops::layer_norm(&x, Some(&self.norm2.value()), None, -1, 1e-5);
                    x + self.down(&ops::gelu(&self.up(&h)))
                }
            }

            #[cell]
            pub struct Gpt {
                tokens: Parameter,
                blocks: Vec<Block>,
                head: nn::Dense,
            }

            #[cell]
            impl Gpt {
                pub fn new(blocks: usize, vocabulary: usize, width: usize) -> Self {
                    Self {
                        tokens: Parameter::new(random::normal([vocabulary, width], 0.0, 0.1), ""),
                        blocks: (0..blocks).map(|_| Block::new(width, 4)).collect(),
                        head: nn::Dense::new(width, vocabulary),
                    }
                }

                fn construct(&self, tokens: &Tensor) -> Tensor {
                    let x = ops::embedding(tokens, &self.tokens, None);
                    let x = self.blocks.iter().fold(x, |x, block| block.call(&x));
                    self.head(&x)
                }
            }
        }
    )*};
}

models! {
    lazy: #[lazy_inline];
    plain:;
}
