//! What is worth knowing of each known mistake beside what the catalogue needs: what it does to the numbers, and how to
//! mend it.
//!
//! Reading order: [`lesson`], what one is; the lessons, by operator, as the catalogue is; [`list`], all of them; [`found`], the
//! same of what a search finds. A name has one lesson, in however many operators it can be made.

mod attention;
mod experts;
mod feed_forward;
pub mod found;
mod indexer;
pub mod lesson;
pub mod list;
mod loading;
mod norms;
mod residual;
mod rotary;
mod router;
mod vision;
