//! The derivative of a product by one factor, where factors may be zero.

use crate::ops::{cast, select, square, zeros_like};
use crate::tensor::Tensor;

/// The factors of products, with those that are zero apart.
///
/// The product of all factors but one is the product over that factor where none is zero. Where one, or two, of the
/// others are zero it is zero, and its derivatives by these are not: so it is computed from the zeros themselves, by
/// their elementary symmetric polynomials. Derivatives of a product to the third order hold for any number of zeros.
pub(crate) struct Factors {
    /// Whether a factor is zero.
    is_zero: Tensor,
    /// One for a factor that is zero, that factor, and its square; zeros for other factors.
    zeros: [Tensor; 3],
    /// The factors that are not zero, and one for others.
    nonzero: Tensor,
}

impl Factors {
    /// The factors `x`.
    #[track_caller]
    pub fn of(x: &Tensor) -> Self {
        let is_zero = x.eq(0.0);
        let own = select(&is_zero, x, zeros_like(x));
        let zeros = [cast(&is_zero, x.dtype()), own.clone(), square(own)];
        Self { zeros, nonzero: select(&is_zero, 1.0, x), is_zero }
    }

    /// The terms of sums over the factors of each product: the number of zeros, the zeros, and their squares.
    pub fn zeros(&self) -> [&Tensor; 3] {
        self.zeros.each_ref()
    }

    /// The factors of each product without those that are zero.
    pub fn nonzero(&self) -> &Tensor {
        &self.nonzero
    }

    /// For each factor the product of the others, from the product and the sums of all, at the place of the factor.
    #[track_caller]
    pub fn others(&self, product: &Tensor, count: &Tensor, sum: &Tensor, squares: &Tensor) -> Tensor {
        let [count, sum, squares] = [(count, 0), (sum, 1), (squares, 2)].map(|(all, at)| all - &self.zeros[at]);
        let zero = select(count.eq(1.0), &sum, select(count.eq(2.0), pair(&sum, &squares), 0.0));
        product / &self.nonzero * select(count.eq(0.0), 1.0, zero)
    }

    /// For each factor the sum over the products in which it is of `terms`, which are products without zeros times a
    /// number each, without that factor. `total` adds up terms at the place of a factor, and the other sums are those
    /// of each product.
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
        // The terms of products with this number of zeros besides the factor itself, as polynomials of their zeros.
        let with = |count_of: f64, own: bool| {
            let count = count - if own { 1.0 } else { 0.0 };
            select(count.eq(count_of), terms, 0.0)
        };
        let polynomial = |own: bool| total(with(0.0, own) + with(1.0, own) * sum + with(2.0, own) * &pair);
        // Of the other zeros the sum is `sum - z`, and the products of pairs are `pair - z sum + z^2`.
        let z = &self.zeros[1];
        let at_zero =
            polynomial(true) - z * total(with(1.0, true) + with(2.0, true) * sum) + square(z) * total(with(2.0, true));
        select(&self.is_zero, at_zero, polynomial(false) / &self.nonzero)
    }
}

/// The second elementary symmetric polynomial of numbers, by Newton's identity from their sum and the sum of squares.
#[track_caller]
fn pair(sum: &Tensor, squares: &Tensor) -> Tensor {
    (square(sum) - squares) * 0.5
}
