//! Derivatives of a product by its factors, where factors may be zero.

use crate::ops::{cast, select, square, zeros_like};
use crate::tensor::Tensor;

/// The factors of products, with the zero factors separated.
///
/// If no factor is zero, the product of all factors but one is the whole product divided by that factor. If one or two
/// of the others are zero, that product is zero but its derivatives are not. It is therefore computed from the zeros,
/// by their elementary symmetric polynomials. Derivatives of a product up to the third order are exact for any number
/// of zeros.
pub(crate) struct Factors {
    /// Whether a factor is zero.
    is_zero: Tensor,
    /// For a zero factor: one, the factor, and its square. Zeros for other factors.
    zeros: [Tensor; 3],
    /// The nonzero factors, and one in place of each zero factor.
    nonzero: Tensor,
}

impl Factors {
    /// Separates the factors `x`.
    #[track_caller]
    pub fn of(x: &Tensor) -> Self {
        let is_zero = x.eq(0.0);
        let own = select(&is_zero, x, zeros_like(x));
        let zeros = [cast(&is_zero, x.dtype()), own.clone(), square(own)];
        Self { zeros, nonzero: select(&is_zero, 1.0, x), is_zero }
    }

    /// Returns the terms of the sums over each product's factors: zero indicators, zero factors, and their squares.
    pub fn zeros(&self) -> [&Tensor; 3] {
        self.zeros.each_ref()
    }

    /// Returns the factors of each product, with one in place of zeros.
    pub fn nonzero(&self) -> &Tensor {
        &self.nonzero
    }

    /// Returns for each factor the product of the others. `product`, `count`, `sum` and `squares` are the product of
    /// the nonzero factors and the sums of [`zeros`](Self::zeros), broadcast to the factors.
    #[track_caller]
    pub fn others(&self, product: &Tensor, count: &Tensor, sum: &Tensor, squares: &Tensor) -> Tensor {
        let [count, sum, squares] = [(count, 0), (sum, 1), (squares, 2)].map(|(all, at)| all - &self.zeros[at]);
        let zero = select(count.eq(1.0), &sum, select(count.eq(2.0), pair(&sum, &squares), 0.0));
        product / &self.nonzero * select(count.eq(0.0), 1.0, zero)
    }

    /// Returns for each factor the sum of `terms` over the products that contain it, without that factor.
    ///
    /// Each term is a product of nonzero factors times a number. `total` sums terms at the position of a factor.
    /// `count`, `sum` and `squares` belong to each product.
    #[track_caller]
    pub fn of_running(
        &self,
        terms: &Tensor,
        count: &Tensor,
        sum: &Tensor,
        squares: &Tensor,
        total: impl Fn(Tensor) -> Tensor,
    ) -> Tensor {
        let pair = pair(sum, squares);
        // Keeps the terms of products that have `count_of` zeros besides the factor itself.
        let with = |count_of: f64, own: bool| {
            let count = count - if own { 1.0 } else { 0.0 };
            select(count.eq(count_of), terms, 0.0)
        };
        let polynomial = |own: bool| total(with(0.0, own) + with(1.0, own) * sum + with(2.0, own) * &pair);
        // Without the zero `z`, the sum of the zeros is `sum - z`, and the sum of their pairwise products is `pair - z
        // sum + z^2`.
        let z = &self.zeros[1];
        let at_zero =
            polynomial(true) - z * total(with(1.0, true) + with(2.0, true) * sum) + square(z) * total(with(2.0, true));
        select(&self.is_zero, at_zero, polynomial(false) / &self.nonzero)
    }
}

/// Returns the second elementary symmetric polynomial, by Newton's identity from the sum and the sum of squares.
#[track_caller]
fn pair(sum: &Tensor, squares: &Tensor) -> Tensor {
    (square(sum) - squares) * 0.5
}
