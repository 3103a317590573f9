//! What decodes on devices: a model on one, or ranks that share it.

use ndarray::ArrayView1;
use optimized::error::Error;
use optimized::models::cache::Cache;
use optimized::models::capture::Capture;
use optimized::models::decoder::Decoder;
use optimized::models::group::Group;
use optimized::models::vision::Features;
use optimized::tensor::Matrix;
use rand_chacha::ChaCha8Rng;
use reference::media::Media;
use reference::ops::sampling::{Choice, Sampling, sample};

use crate::failure::Failure;

/// A model that goes from tokens to logits.
pub trait OnDevice {
    /// Keys and values of the tokens so far.
    type Cache;
    /// Logits of the tokens of a call.
    type Logits;

    /// An empty cache for so many tokens.
    fn cache(&self, positions: usize) -> Result<Self::Cache, Error>;

    /// Features of what a prompt shows.
    fn features(&self, media: &Media, capture: Option<&mut dyn Capture>) -> Result<Vec<Features>, Failure>;

    /// Logits of tokens that follow those in the cache.
    fn forward(
        &self,
        tokens: &[u32],
        features: &[Features],
        cache: &mut Self::Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Self::Logits, Error>;

    /// A token by the last row of logits.
    fn choose(&self, logits: &Self::Logits, how: &Sampling, rng: &mut ChaCha8Rng) -> Result<Choice, Failure>;
}

/// Greedy tokens are chosen on the device.
impl OnDevice for Decoder {
    type Cache = Cache;
    type Logits = Matrix<half::bf16>;

    fn cache(&self, positions: usize) -> Result<Cache, Error> {
        self.cache(positions)
    }

    fn features(&self, media: &Media, capture: Option<&mut dyn Capture>) -> Result<Vec<Features>, Failure> {
        Ok(self.features(media, capture)?)
    }

    fn forward(
        &self,
        tokens: &[u32],
        features: &[Features],
        cache: &mut Cache,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Self::Logits, Error> {
        self.forward(tokens, features, cache, capture)
    }

    fn choose(&self, logits: &Self::Logits, how: &Sampling, rng: &mut ChaCha8Rng) -> Result<Choice, Failure> {
        if let Sampling::Greedy = how {
            let (token, margin) = self.greedy(logits)?;
            return Ok(Choice { token, margin: f64::from(margin) });
        }
        chosen(&self.last_row(logits)?, how, rng)
    }
}

impl OnDevice for Group {
    type Cache = Vec<Cache>;
    type Logits = Vec<Matrix<half::bf16>>;

    fn cache(&self, positions: usize) -> Result<Vec<Cache>, Error> {
        self.caches(positions)
    }

    fn features(&self, _: &Media, _: Option<&mut dyn Capture>) -> Result<Vec<Features>, Failure> {
        Err(Failure::new("ranks run the text model alone").help("give a prompt of text, or leave --tp out"))
    }

    fn forward(
        &self,
        tokens: &[u32],
        _: &[Features],
        caches: &mut Vec<Cache>,
        capture: Option<&mut dyn Capture>,
    ) -> Result<Self::Logits, Error> {
        self.forward(tokens, caches, capture)
    }

    fn choose(&self, logits: &Self::Logits, how: &Sampling, rng: &mut ChaCha8Rng) -> Result<Choice, Failure> {
        chosen(&self.last_row(logits)?, how, rng)
    }
}

fn chosen(last: &[f32], how: &Sampling, rng: &mut ChaCha8Rng) -> Result<Choice, Failure> {
    Ok(sample(how, ArrayView1::from(last), rng).map_err(reference::Error::from)?)
}
