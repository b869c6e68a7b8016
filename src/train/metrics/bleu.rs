//! The BLEU score of texts against references.

use super::no_samples;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Error, Result};
use std::collections::HashMap;
use std::hash::Hash;

/// The BLEU score of a corpus (Papineni, Roukos, Ward and Zhu, "BLEU: a method for automatic evaluation of machine
/// translation", ACL 2002). It is the geometric mean of the n-gram precisions up to a length, times a brevity penalty
/// for candidates that are shorter than the closest references.
///
/// ```
/// use ms::train::BleuScore;
/// let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
/// let mut bleu = BleuScore::new(2);
/// bleu.update(&words("the cat sat down"), &[words("the cat sat up"), words("a cat sat")])?;
/// assert!((bleu.eval()? - (0.75f64 * 2.0 / 3.0).sqrt()).abs() < 1e-12);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BleuScore {
    /// The number of n-grams found in a reference, and of all n-grams, for each length.
    found: Vec<[f64; 2]>,
    smooth: bool,
    candidate_length: usize,
    reference_length: usize,
}

impl BleuScore {
    /// Creates the score without texts, for n-grams of 1 to `longest` tokens; `longest` is usually 4.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for a length of zero.
    #[track_caller]
    pub fn new(longest: usize) -> Self {
        check_positive("BleuScore", "longest", longest).or_raise();
        Self { found: vec![[0.0; 2]; longest], smooth: false, candidate_length: 0, reference_length: 0 }
    }

    /// Sets whether one is added to both counts of n-grams longer than one token, so that the score of a short text is
    /// not zero. (Lin and Och, "Automatic evaluation of machine translation quality using longest common subsequence
    /// and skip-bigram statistics", ACL 2004.)
    pub fn smooth(self, smooth: bool) -> Self {
        Self { smooth, ..self }
    }

    /// Removes all texts.
    pub fn clear(&mut self) {
        let smooth = self.smooth;
        *self = Self::new(self.found.len()).smooth(smooth);
    }

    /// Adds a text and its references, as tokens.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is no reference.
    pub fn update<T: Hash + Eq>(&mut self, candidate: &[T], references: &[Vec<T>]) -> Result<()> {
        let distance = |it: &usize| (it.abs_diff(candidate.len()), *it);
        let Some(closest) = references.iter().map(Vec::len).min_by_key(distance) else {
            return Err(Error::new(Code::Argument, "there is no reference").with_op("BleuScore"));
        };
        self.candidate_length += candidate.len();
        self.reference_length += closest;
        for (at, [found, all]) in self.found.iter_mut().enumerate() {
            let most = references.iter().map(|it| grams(it, at + 1)).fold(HashMap::new(), |mut most, counts| {
                counts.into_iter().for_each(|(gram, count)| {
                    let entry = most.entry(gram).or_insert(0);
                    *entry = count.max(*entry);
                });
                most
            });
            let counts = grams(candidate, at + 1);
            *all += counts.values().sum::<usize>() as f64;
            *found += counts.iter().map(|(gram, count)| *count.min(most.get(gram).unwrap_or(&0))).sum::<usize>() as f64;
        }
        Ok(())
    }

    /// Returns the score of all texts, from 0 to 1.
    ///
    /// # Errors
    /// [`Code::Argument`] if there are no tokens.
    pub fn eval(&self) -> Result<f64> {
        if self.candidate_length == 0 {
            return Err(no_samples("BleuScore"));
        }
        let precision = |(at, [found, all]): (usize, &[f64; 2])| match self.smooth && at > 0 {
            true => (found + 1.0) / (all + 1.0),
            false if *all == 0.0 => 0.0,
            false => found / all,
        };
        let logarithms: f64 = self.found.iter().enumerate().map(|it| precision(it).ln()).sum();
        let (candidates, references) = (self.candidate_length as f64, self.reference_length as f64);
        let penalty = (1.0 - references / candidates).min(0.0);
        Ok((penalty + logarithms / self.found.len() as f64).exp())
    }
}

/// Counts the occurrences of each n-gram of `length` tokens.
fn grams<T: Hash + Eq>(text: &[T], length: usize) -> HashMap<&[T], usize> {
    let mut counts = HashMap::new();
    text.windows(length).for_each(|it| *counts.entry(it).or_insert(0) += 1);
    counts
}
